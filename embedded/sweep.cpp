#include "embedded/sweep.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/process.hpp"
#include "wire/environment.hpp"

namespace stoker::embedded {
namespace {

// The environment of a process, at most 4 MiB of it; "" when it is gone or not ours to read.
std::string environment_of(pid_t pid) {
  const os::Fd fd(::open(fmt::format("/proc/{}/environ", pid).c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[65536];
  while (fd && text.size() < (4u << 20)) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  return text;
}

bool kill_one(pid_t pid) {  // true: it was there
  const auto identity = os::identify(pid);
  if (!identity || !os::is_alive(*identity)) return false;
  const auto fd = os::open_process(*identity);
  if (!fd) return false;
  (void)os::send_signal(*fd, SIGKILL);
  return true;
}

}  // namespace

std::set<pid_t> processes_with_mark(const std::string& mark) {
  std::set<pid_t> found;
  const auto names = os::list_directory("/proc");
  if (!names) return found;
  const std::string entry = fmt::format("{}={}", wire::env::kLocalMark, mark);
  for (const std::string& name : *names) {
    const pid_t pid = static_cast<pid_t>(std::strtol(name.c_str(), nullptr, 10));
    if (pid <= 0 || pid == ::getpid()) continue;
    const std::string text = environment_of(pid);
    for (std::size_t at = text.find(entry); at != std::string::npos;
         at = text.find(entry, at + 1)) {
      const std::size_t end = at + entry.size();
      if ((at == 0 || text[at - 1] == '\0') && (end == text.size() || text[end] == '\0')) {
        found.insert(pid);
        break;
      }
    }
  }
  return found;
}

std::uint32_t sweep(const SweepTarget& target, Duration limit) {
  const Instant end = monotonic_now() + limit;
  while (true) {
    std::set<pid_t> victims = processes_with_mark(target.mark);
    if (target.root != 0)
      for (const pid_t pid : os::descendants_of(target.root)) victims.insert(pid);
    if (target.root != 0 && target.with_root) victims.insert(target.root);
    if (target.root != 0 && !target.with_root) victims.erase(target.root);
    std::uint32_t alive = 0;
    for (const pid_t pid : victims) alive += kill_one(pid) ? 1 : 0;
    if (alive == 0) return 0;
    if (monotonic_now() >= end) return alive;
    const timespec pause{0, 2'000'000};
    ::nanosleep(&pause, nullptr);
  }
}

}  // namespace stoker::embedded
