// Warm standby of a Python training (train.preload): which command the standby process has. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoker::agent {

// `python [options] script …` or `python [options] -m module …` as `helper` (python_standby.py)
// runs it, with the modules of `preload` ("torch,numpy") imported. Empty: another program, an
// interpreter without a script, or a `preload` that names nothing.
std::optional<std::vector<std::string>> preload_command(const std::vector<std::string>& command,
                                                        const std::string& preload,
                                                        const std::string& helper);

std::string_view python_standby();  // text of python_standby.py

}  // namespace stoker::agent
