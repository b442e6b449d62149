// SIGKILL in rounds: between listing and killing a process may fork, so a round is repeated until
// the kernel says that there is no child (ECHILD) or no process with the mark.
#include "worker/agent/rank/process_tree.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <dirent.h>
#include <fmt/format.h>
#include <memory>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/process.hpp"

namespace stoker::agent {
namespace {

constexpr int kRoundMs = 5;

// Reaps what has ended. True: there are no children at all.
bool reap_all() {
  while (true) {
    const pid_t pid = ::waitpid(-1, nullptr, WNOHANG);
    if (pid > 0) continue;
    if (pid < 0 && errno == EINTR) continue;
    return pid < 0;
  }
}

char state_of(pid_t pid, std::string* name = nullptr) {
  const auto stat = os::read_file(fmt::format("/proc/{}/stat", pid), 4096);
  if (!stat) return 'X';
  const auto open = stat->find('(');
  const auto close = stat->rfind(')');
  if (open == std::string::npos || close == std::string::npos || close + 2 >= stat->size())
    return '?';
  if (name != nullptr) *name = stat->substr(open + 1, close - open - 1);
  return (*stat)[close + 2];
}

// The whole line, and all of it: a mark must not be found as the beginning of a longer one.
bool has_line(const std::string& environment, const std::string& line) {
  for (std::size_t at = 0; (at = environment.find(line, at)) != std::string::npos; ++at) {
    const std::size_t end = at + line.size();
    if ((at == 0 || environment[at - 1] == '\0') &&
        (end == environment.size() || environment[end] == '\0'))
      return true;
  }
  return false;
}

}  // namespace

std::vector<pid_t> processes_with(const std::string& line) {
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  while (const dirent* entry = proc ? ::readdir(proc.get()) : nullptr) {
    const pid_t pid = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (pid <= 0) continue;
    const auto environment = os::read_file(fmt::format("/proc/{}/environ", pid), 4u << 20);
    if (!environment || !has_line(*environment, line)) continue;
    const char state = state_of(pid);
    if (state != 'Z' && state != 'X') found.push_back(pid);
  }
  return found;
}

std::vector<pid_t> marked_processes(const std::string& mark, pid_t self) {
  std::vector<pid_t> found = processes_with(std::string(kMarkVariable) + "=" + mark);
  std::erase(found, self);
  return found;
}

std::vector<pid_t> processes_named(const std::string& name) {
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  while (const dirent* entry = proc ? ::readdir(proc.get()) : nullptr) {
    const pid_t pid = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (pid <= 0) continue;
    const auto comm = os::read_file(fmt::format("/proc/{}/comm", pid), 256);
    if (comm && *comm == name + "\n") found.push_back(pid);
  }
  return found;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> found;
  for (const pid_t pid : os::descendants_of(parent)) {
    const auto stat = os::read_file(fmt::format("/proc/{}/stat", pid), 4096);
    const auto close = stat ? stat->rfind(')') : std::string::npos;
    if (close == std::string::npos || close + 4 >= stat->size()) continue;
    if (std::strtol(stat->c_str() + close + 4, nullptr, 10) == parent) found.push_back(pid);
  }
  return found;
}

std::size_t signal_descendants(int signal) {
  const auto pids = os::descendants_of(::getpid());
  for (const pid_t pid : pids) ::kill(pid, signal);
  return pids.size();
}

std::vector<pid_t> kill_descendants(Duration limit) {
  const Instant deadline = monotonic_now() + limit;
  while (!reap_all()) {
    signal_descendants(SIGKILL);
    if (reap_all()) break;
    if (monotonic_now() > deadline) return os::descendants_of(::getpid());
    ::poll(nullptr, 0, kRoundMs);
  }
  return {};
}

std::vector<pid_t> kill_marked(const std::string& mark, const std::vector<pid_t>& except,
                               Duration limit) {
  const Instant deadline = monotonic_now() + limit;
  while (true) {
    std::vector<pid_t> left = marked_processes(mark, ::getpid());
    std::erase_if(left, [&except](pid_t pid) {
      return std::find(except.begin(), except.end(), pid) != except.end();
    });
    if (left.empty()) return {};
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    if (monotonic_now() > deadline) return left;
    reap_all();
    ::poll(nullptr, 0, kRoundMs);
  }
}

std::string describe_processes(const std::vector<pid_t>& pids) {
  std::string text;
  for (const pid_t pid : pids) {
    std::string name = "?";
    const char state = state_of(pid, &name);
    text += fmt::format("{}{} {} ({})", text.empty() ? "" : ", ", pid, name, state);
  }
  return text;
}

bool catches_signal(pid_t pid, int signal) {
  const auto status = os::read_file(fmt::format("/proc/{}/status", pid), 1u << 16);
  const auto at = status ? status->find("SigCgt:") : std::string::npos;
  if (at == std::string::npos) return false;
  const auto mask = std::strtoull(status->c_str() + at + 7, nullptr, 16);
  return (mask >> (signal - 1) & 1) != 0;
}

}  // namespace stoker::agent
