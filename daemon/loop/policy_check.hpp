// The check of a RUN.yaml with all that the daemon knows: kinds of sinks, its environment, its
// state directory. It reads the files that RUN.yaml names: not on the loop's thread.
#pragma once

#include <string>
#include <string_view>

#include "configs/schema/run_checks.hpp"

namespace stoker::daemon {

// `file`: where the text lies, for messages and relative paths. `state`: the state directory.
configs::CheckedRun check_policy(std::string_view text, const std::string& file,
                                 const std::string& state);
// A line each.
std::string error_lines(const configs::Diagnostics& errors);

}  // namespace stoker::daemon
