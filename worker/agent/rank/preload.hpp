// Warm standby of a Python training (train.preload): which command the standby process has. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoker::agent {

// "0": standbys import only what train.preload names, not what the script was seen to import.
inline constexpr const char* kPreloadLearned = "STOKER_PRELOAD_LEARNED";
// To python_standby.py: the file with what was learned. The helper takes it away again.
inline constexpr const char* kPreloadList = "STOKER_PRELOAD_LIST";

// `python [options] script …` or `python [options] -m module …` as `helper` (python_standby.py)
// runs it, with the modules of `preload` ("torch,numpy") imported. Empty: another program, an
// interpreter without a script, or a `preload` that names nothing.
std::optional<std::vector<std::string>> preload_command(const std::vector<std::string>& command,
                                                        const std::string& preload,
                                                        const std::string& helper);

std::string_view python_standby();  // text of python_standby.py

}  // namespace stoker::agent
