// Whether a path exists, where not knowing is an answer of its own: a file system that is away or
// lies (EIO, ESTALE) proves neither.
#pragma once

#include <cerrno>
#include <string>
#include <sys/stat.h>

#include "common/result.hpp"

namespace stoker::os {

// An Error where the path cannot be examined: it may exist.
inline Result<bool> is_there(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return fail(errno_error(errno, "cannot look at", path));
}

}  // namespace stoker::os
