// Whether a path exists. Not knowing is an answer of its own in is_there(): a file system that is
// away or lies (EIO, ESTALE) proves neither.
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

// Whether anything has this name, a link that leads nowhere too. False where it cannot be examined:
// for who is about to take the name, and meets the error there.
inline bool is_taken(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

}  // namespace stoker::os
