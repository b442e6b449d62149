// The file that a socket was bound to, known by its inode: another daemon may have put its own in
// its place.
#pragma once

#include <string>
#include <sys/types.h>

namespace stoker::daemon {

struct SocketFile {
  std::string path;  // "" = not bound
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const SocketFile&) const = default;
  [[nodiscard]] bool in_place() const;
};
// What is at the path now.
SocketFile socket_file(const std::string& path);

}  // namespace stoker::daemon
