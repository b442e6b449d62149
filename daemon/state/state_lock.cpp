#include "daemon/state/state_lock.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <fmt/format.h>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/kernel_table.hpp"

namespace stoker::daemon {
namespace {

constexpr Duration kPause = 100ms;
constexpr int kTries = 50;  // a child that the owner had just forked holds it until its exec
constexpr std::size_t kLargestTable = 16 << 20;
constexpr int kTriesOfTurn = 80;  // another starter waits as long as that, and copies a journal

Result<os::Fd> open_lock(const std::string& path, int flags) {
  os::Fd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0644));
  if (!lock) return fail(errno_error(errno, "cannot open the lock", path));
  return lock;
}

// Starters take turns: two of them cannot both replace the lock of a dead owner. A file, which only
// the owner can ever have opened; the directory may have been open to others once.
Result<os::Fd> take_turn(const std::string& path) {
  STOKER_TRY(turn, open_lock(path, 0));
  for (int tries = 0; ::flock(turn.get(), LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return fail(errno_error(errno, "cannot lock it", path));
    if (tries == kTriesOfTurn)
      return fail("another stokerd is starting there", path, "try again in a few seconds");
    std::this_thread::sleep_for(kPause);
  }
  return std::move(turn);
}

std::optional<Lease> owner_of(const std::string& path) {
  const auto text = os::read_file(path, 4096);
  const auto lease = from_json_text<Lease>(text.value_or(""), path);
  return lease ? std::optional(*lease) : std::nullopt;
}

std::optional<std::uint64_t> inode_of(const os::Fd& file) {
  struct stat info {};
  return ::fstat(file.get(), &info) == 0 ? std::optional<std::uint64_t>(info.st_ino) : std::nullopt;
}

// `owner` alone holds it, as far as the kernel shows. `turn`: a lock of this process beside it. The
// number of a file is another file's too, on another file system.
bool is_held_by(const os::Fd& lock, const os::Fd& turn, const Lease& owner) {
  std::string locks;  // others take as many as they like: of those, only locks on such numbers
  const auto here = inode_of(turn), there = inode_of(lock);
  if (!here || !there) return false;
  const std::string ours = fmt::format(":{} ", *here), wanted = fmt::format(":{} ", *there);
  const bool whole = os::read_table("/proc/locks", [&](std::string_view line) {
    if (line.find(ours) != std::string_view::npos || line.find(wanted) != std::string_view::npos)
      locks.append(line).append("\n");
    return locks.size() < kLargestTable;
  });
  const std::string device = flock_device(locks, ::getpid(), *here);
  if (!whole || locks.size() >= kLargestTable || device.empty()) return false;
  const auto holders = flock_holders(locks, device, *there);
  return !holders.empty() &&
         std::all_of(holders.begin(), holders.end(), [&](auto pid) { return pid == owner.pid; });
}

// An older daemon takes another turn, or none.
Status check_in_place(const os::Fd& lock, const std::string& path) {
  struct stat there {};
  if (::stat(path.c_str(), &there) == 0 && inode_of(lock) == there.st_ino) return ok();
  return fail("it was replaced at this moment: another stokerd works on it", path, "try again");
}

// With the old one's text: until the new owner has written his, the epoch in it counts.
Result<os::Fd> replace_lock(const std::string& path, const Lease& old) {
  const std::string aside = path + ".new";
  ::unlink(aside.c_str());
  STOKER_TRY(lock, open_lock(aside, O_EXCL));
  const std::string text = to_json_text(old) + "\n";
  if (::write(lock.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(lock.get()) != 0 || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 ||
      ::rename(aside.c_str(), path.c_str()) != 0)
    return fail(errno_error(errno, "cannot replace the lock of a killed stokerd", path));
  STOKER_TRY_STATUS(check_in_place(lock, path));
  return std::move(lock);
}

// "1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF"; who waits has "->" behind the number.
struct Flock {
  std::int64_t pid = 0;
  std::string device;
  std::uint64_t inode = 0;
};
std::vector<Flock> flocks_of(std::string_view locks) {
  std::vector<Flock> all;
  std::istringstream lines{std::string(locks)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, kind, advice, access, file;
    Flock lock;
    if (!(words >> number >> kind >> advice >> access >> lock.pid >> file) || kind != "FLOCK")
      continue;
    const std::size_t colon = file.rfind(':');
    if (colon == std::string::npos) continue;
    lock.device = file.substr(0, colon);
    const char* end = file.data() + file.size();
    const auto [stop, error] = std::from_chars(file.data() + colon + 1, end, lock.inode);
    if (error == std::errc{} && stop == end) all.push_back(std::move(lock));
  }
  return all;
}

}  // namespace

std::string flock_device(std::string_view locks, std::int64_t pid, std::uint64_t inode) {
  for (const Flock& lock : flocks_of(locks))
    if (lock.pid == pid && lock.inode == inode) return lock.device;
  return "";
}

std::vector<std::int64_t> flock_holders(std::string_view locks, std::string_view device,
                                        std::uint64_t inode) {
  std::vector<std::int64_t> holders;
  for (const Flock& lock : flocks_of(locks))
    if (lock.device == device && lock.inode == inode) holders.push_back(lock.pid);
  return holders;
}

Result<StateLock> take_state_lock(const std::string& directory,
                                  const std::function<Status()>& prepare) {
  const std::string path = directory + kStateLock;
  STOKER_TRY(turn, take_turn(directory + kStateTurn));
  StateLock taken;
  STOKER_TRY(lock, open_lock(path, 0));
  taken.lock = std::move(lock);
  for (int tries = 0; ::flock(taken.lock.get(), LOCK_EX | LOCK_NB) != 0; ++tries) {
    const auto owner = owner_of(path);
    if (!owner || !is_owner_gone(*owner))
      return fail(owner ? owner_text(*owner) : "another stokerd works on it", directory,
                  "stop that one first, or name another --state");
    if (tries == kTries) {
      if (!is_held_by(taken.lock, turn, *owner))
        return fail("its lock is held, and the kernel does not show by whom", path,
                    "stop the stokerd that works on it first, or name another --state");
      STOKER_TRY_STATUS(prepare());
      STOKER_TRY(replaced, replace_lock(path, *owner));
      return StateLock{std::move(replaced), *owner};
    }
    std::this_thread::sleep_for(kPause);
  }
  STOKER_TRY_STATUS(check_in_place(taken.lock, path));
  return taken;
}

}  // namespace stoker::daemon
