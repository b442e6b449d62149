// The lock of a state directory on a local disk: an flock on `stokerd.lock`, whose text names its
// owner. The kernel keeps it after the owner was killed as long as one of its threads sleeps in a
// file system that does not answer (state D). Such an owner executes nothing of its own any more
// (one system call may still end, and change a file of a run), so its lock is replaced.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "daemon/state/lease.hpp"

namespace stoker::daemon {

inline constexpr const char* kStateLock = "/stokerd.lock";
inline constexpr const char* kStateTurn = "/stokerd.turn";  // locked while a daemon starts

struct StateLock {
  os::Fd lock;
  std::optional<Lease> left_behind;  // the dead owner whose lock was replaced
};

// Waits five seconds for a lock whose owner has ended. `prepare` is called before the lock of a
// dead owner is replaced: it frees what else he holds; where it fails, nothing is replaced. Error:
// another daemon works on `directory` (named: host and pid) or is starting there.
Result<StateLock> take_state_lock(const std::string& directory,
                                  const std::function<Status()>& prepare);

// By the text of /proc/locks, where a file is "MAJOR:MINOR:INODE" (hexadecimal device): the device
// of the file with this inode number that `pid` holds an flock on; "": it holds none. stat(2) may
// show another device (overlay, btrfs).
std::string flock_device(std::string_view locks, std::int64_t pid, std::uint64_t inode);
// Pids of those who hold an flock on this file; who waits is left out.
std::vector<std::int64_t> flock_holders(std::string_view locks, std::string_view device,
                                        std::uint64_t inode);

}  // namespace stoker::daemon
