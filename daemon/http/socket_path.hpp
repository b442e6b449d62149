// The path of a unix socket that a web page listens on.
#pragma once

#include <string>
#include <sys/stat.h>

#include "common/result.hpp"

namespace stoker::daemon {

// A socket that a killed daemon left behind is put away. Error: anything else is at that path, and
// stays, or a process that lives listens there.
Status clear_socket_path(const std::string& path);

// Something is there, and neither ours nor root's.
bool is_of_another(const std::string& path);

// For a group, a web server's say, where the folder gives it one. Elsewhere a new socket has our
// primary group, which all users of a site may be in.
mode_t mode_in_its_folder(const std::string& path);

}  // namespace stoker::daemon
