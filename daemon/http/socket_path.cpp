#include "daemon/http/socket_path.hpp"

#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/listener.hpp"

namespace stoker::daemon {
namespace {

// Also by a process whose queue is full, where a connect(2) would wait for it.
bool is_listened_on(const std::string& path) {
  const os::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!fd || path.size() >= sizeof address.sun_path) return false;  // bind() says what is wrong
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int done = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return done == 0 ? !os::is_served_by_dead(fd.get()) : errno == EAGAIN;
}

}  // namespace

Status clear_socket_path(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return ok();  // free, or bind() says what is wrong
  constexpr const char* kHint = "name another path with --listen";
  if (!S_ISSOCK(info.st_mode)) return fail("there is a file that is no socket", path, kHint);
  if (is_listened_on(path))
    return fail("cannot listen: somebody listens there already", path, kHint);
  ::unlink(path.c_str());
  return ok();
}

bool is_of_another(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && info.st_uid != 0 && info.st_uid != ::geteuid();
}

mode_t mode_in_its_folder(const std::string& path) {
  struct stat info {};
  const bool there = ::stat(path.substr(0, path.rfind('/') + 1).c_str(), &info) == 0;
  return there && (info.st_mode & S_ISGID) != 0 ? 0660 : 0600;
}

}  // namespace stoker::daemon
