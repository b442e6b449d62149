// A path without its symbolic links, asked for where its file system may not answer.
#pragma once

#include <optional>
#include <string>

#include "common/time.hpp"

namespace stoker::daemon {

// As far as the path exists; what is missing stays as it is written. Empty: no answer in time; the
// thread that asks is left alone.
std::optional<std::string> real_path_in_time(const std::string& path, Duration patience);

}  // namespace stoker::daemon
