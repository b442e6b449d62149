#include "daemon/socket/socket_file.hpp"

#include <sys/stat.h>

namespace stoker::daemon {

bool SocketFile::in_place() const {
  return !path.empty() && socket_file(path) == *this;
}

SocketFile socket_file(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return {path, 0, 0};
  return {path, info.st_dev, info.st_ino};
}

}  // namespace stoker::daemon
