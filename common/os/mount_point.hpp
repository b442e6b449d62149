// Where the file system of a path is mounted, by the kernel's table alone: the path itself is not
// touched, as its file system may not answer.
#pragma once

#include <string>
#include <string_view>

namespace stoker::os {

// Whether an absolute path is `folder` or lies below it.
bool is_at_or_below(std::string_view path, std::string_view folder);

// The longest mount point above an absolute path. Symbolic links are not followed. "/": none is
// known.
std::string mount_point_of(const std::string& path);

}  // namespace stoker::os
