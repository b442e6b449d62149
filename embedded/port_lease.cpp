#include "embedded/port_lease.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace stoker::embedded {
namespace {

// Another user's program may sit in the range: its lease is unknown to us, its port is not.
bool can_bind(std::uint16_t port) {
  const os::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);  // TIME_WAIT does not count
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  return fd && ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

bool range_is_free(std::uint16_t first) {
  for (std::uint16_t i = 0; i < kPortsPerNode; ++i)
    if (!can_bind(static_cast<std::uint16_t>(first + i))) return false;
  return true;
}

Result<std::string> lease_folder() {
  const std::string path = fmt::format("/tmp/stoker-ports-{}", ::getuid());
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(errno_error(errno, "cannot create", path));
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return fail(errno_error(errno, "cannot look at", path));
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::getuid() || (info.st_mode & 022) != 0)
    return fail("this must be a folder of ours that nobody else can write", path,
                "have its owner remove it");
  return path;
}

}  // namespace

std::string PortLease::text() const {
  return fmt::format("{}-{}", first, last);
}

Result<PortLease> lease_ports() {
  STOKER_TRY(folder, lease_folder());
  for (std::uint16_t i = 0; i < kPortRanges; ++i) {
    // Users begin at different places, so that they seldom meet.
    const auto slot = static_cast<std::uint16_t>((i + ::getuid() * 7) % kPortRanges);
    PortLease lease;
    lease.first = static_cast<std::uint16_t>(kFirstPort + slot * kPortsPerNode);
    lease.last = static_cast<std::uint16_t>(lease.first + kPortsPerNode - 1);
    const std::string path = fmt::format("{}/{}", folder, lease.first);
    lease.lock = os::Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lease.lock) return fail(errno_error(errno, "cannot open", path));
    if (::flock(lease.lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
    if (range_is_free(lease.first)) return lease;
  }
  return fail("no free range of 100 ports between 20000 and 32699", "",
              "see with `ss -ltn` who listens there");
}

}  // namespace stoker::embedded
