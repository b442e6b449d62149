#include "daemon/state/lease.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/process.hpp"

namespace stoker::daemon {

namespace {

std::uint64_t own_pid_namespace() {
  struct stat info {};
  return ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

}  // namespace

Lease our_lease(Epoch epoch) {
  Lease lease;
  lease.epoch = epoch;
  lease.host = os::host_name();
  lease.boot_id = os::boot_id();
  lease.pid_namespace = own_pid_namespace();
  lease.pid = ::getpid();
  if (const auto self = os::identify(::getpid())) lease.started = self->started;
  return lease;
}

bool is_owner_gone(const Lease& lease) {
  if (lease.boot_id.empty() || lease.boot_id != os::boot_id() || lease.host != os::host_name())
    return false;
  // A process of another namespace cannot be seen, and may live; 0: an older version has no word.
  if (lease.pid_namespace != 0 && lease.pid_namespace != own_pid_namespace()) return false;
  return !os::is_alive({static_cast<pid_t>(lease.pid), lease.started});
}

std::string owner_text(const Lease& lease) {
  return fmt::format("stokerd with pid {} on {} works on it", lease.pid, lease.host);
}

}  // namespace stoker::daemon
