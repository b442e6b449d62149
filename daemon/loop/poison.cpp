// PoisonGuard: one small file, rewritten in place around each step.
#include "daemon/loop/poison.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/hash.hpp"
#include "common/os/files.hpp"

namespace stoker::daemon {

namespace {

// The one thing that a signal handler can reach.
std::atomic<int> crash_marker{-1};

void on_crash(int signal) {
  if (const int fd = crash_marker.load(); fd >= 0) {
    [[maybe_unused]] const auto written = ::pwrite(fd, "x", 1, 0);
  }
  ::raise(signal);  // SA_RESETHAND: dies as it would have without us
}

// Was the marker set? Clears it.
Result<bool> take_marker(const std::string& path) {
  const os::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0 || ::ftruncate(fd.get(), 0) != 0)
    return fail(errno_error(errno, "cannot read the crash marker", path));
  return info.st_size > 0;
}

}  // namespace

Status mark_crashes_in(const std::string& marker) {
  const int fd = ::open(marker.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return fail(errno_error(errno, "cannot open the crash marker", marker));
  if (const int before = crash_marker.exchange(fd); before >= 0) ::close(before);
  struct sigaction action {};
  action.sa_handler = on_crash;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE})
    ::sigaction(signal, &action, nullptr);
  return ok();
}

std::string input_digest(const core::Input& input) {
  return hex64(xxh3_64(input.run.text + "\n" + to_json_text(input.body)));
}

Result<PoisonGuard> PoisonGuard::open(const std::string& path) {
  const auto text = os::read_file(path, 16u << 20);
  os::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return fail(errno_error(errno, "cannot open", path));
  PoisonGuard guard(std::move(fd), path);
  if (text && !text->empty())
    if (auto note = from_json_text<SteppingNote>(*text, path)) guard.note_ = std::move(*note);
  STOKER_TRY(crashed, take_marker(path + ".crashed"));
  STOKER_TRY_STATUS(mark_crashes_in(path + ".crashed"));
  if (!crashed) guard.note_.stepping.clear();
  // A step of many inputs accuses each of them once only: the next, careful start decides.
  const bool alone = guard.note_.stepping.size() == 1;
  for (const std::string& digest : guard.note_.stepping) {
    auto& count = guard.note_.aborts[digest];
    count = alone ? count + 1 : std::max(count, 1u);
  }
  guard.note_.stepping.clear();
  STOKER_TRY_STATUS(guard.write());
  return guard;
}

bool PoisonGuard::is_poisonous(const core::Input& input) const {
  if (note_.aborts.empty()) return false;
  const auto found = note_.aborts.find(input_digest(input));
  return found != note_.aborts.end() && found->second >= kAbortsUntilQuarantine;
}

Status PoisonGuard::before(const std::vector<core::Input>& inputs) {
  note_.stepping.clear();
  for (const core::Input& input : inputs) note_.stepping.push_back(input_digest(input));
  return write();
}

Status PoisonGuard::after() {
  for (const std::string& digest : note_.stepping) note_.aborts.erase(digest);
  note_.stepping.clear();
  return write();
}

Status PoisonGuard::forget(const core::Input& input) {
  note_.aborts.erase(input_digest(input));
  return write();
}

Status PoisonGuard::write() {
  const bool empty = note_.aborts.empty() && note_.stepping.empty();
  const std::string text = empty ? std::string() : to_json_text(note_);
  if (::pwrite(fd_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      ::ftruncate(fd_.get(), static_cast<off_t>(text.size())) != 0)
    return fail(errno_error(errno, "cannot note the step", path_));
  return ok();
}

}  // namespace stoker::daemon
