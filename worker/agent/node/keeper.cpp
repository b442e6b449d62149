// The keeper: the process that the scheduler started. It forks the agent, forwards signals to it,
// and when the agent is gone, however it went, kills what is left and exits as the agent did.
#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <fmt/format.h>
#include <memory>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/printable.hpp"
#include "worker/agent/rank/guardian.hpp"
#include "worker/agent/rank/process_tree.hpp"

namespace stoker::agent {
namespace {

constexpr Duration kKillLimit = 10s;

void remove_shared_memory(const std::string& mark) {
  const std::string prefix = shm_prefix(mark);
  const std::unique_ptr<DIR, int (*)(DIR*)> shm(::opendir("/dev/shm"), ::closedir);
  while (const dirent* entry = shm ? ::readdir(shm.get()) : nullptr)
    if (std::string_view(entry->d_name).starts_with(prefix))
      ::unlink(fmt::format("/dev/shm/{}", entry->d_name).c_str());
}

int keep(pid_t agent, const std::string& mark) {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD}) sigaddset(&set, s);
  const os::Fd signals(::signalfd(-1, &set, SFD_CLOEXEC));
  int raw = 0;
  while (true) {
    const pid_t pid = ::waitpid(-1, &raw, WNOHANG);
    if (pid == agent) break;
    if (pid > 0) continue;
    signalfd_siginfo info;
    if (::read(signals.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) continue;
    if (info.ssi_signo != SIGCHLD) ::kill(agent, static_cast<int>(info.ssi_signo));
  }
  const auto left = kill_descendants(kKillLimit);
  kill_marked(mark, {}, kKillLimit);
  remove_shared_memory(mark);
  if (!left.empty()) tell_stderr("stoker-agent: cannot kill " + describe_processes(left));
  if (WIFSIGNALED(raw)) {
    tell_stderr(fmt::format("stoker-agent: the agent died of signal {}; its ranks were ended",
                            WTERMSIG(raw)));
    return 128 + WTERMSIG(raw);
  }
  return WEXITSTATUS(raw);
}

}  // namespace

std::string shm_prefix(const std::string& mark) {
  return "stoker." + mark + ".";
}

bool become_keeper(const std::string& mark, KeeperLink& link, int& keeper_exit) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const auto self = os::identify(::getpid());
  auto pidfd = self ? os::open_process(*self) : std::nullopt;
  STOKER_CHECK(self && pidfd, "own identity in /proc");
  sigset_t set;
  sigemptyset(&set);  // blocked in both: each reads them from a signalfd
  for (const int s : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD, SIGPIPE})
    sigaddset(&set, s);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  pid_t agent = ::fork();
  // What other users have used up comes back; the scheduler's signal ends the wait.
  while (agent < 0 && (errno == EAGAIN || errno == ENOMEM)) {
    const timespec again{1, 0};
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    if (::sigtimedwait(&ends, nullptr, &again) == SIGTERM) ::_exit(128 + SIGTERM);
    agent = ::fork();
  }
  STOKER_CHECK(agent >= 0, "fork");
  if (agent == 0) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    link.keeper = *self;
    link.keeper_pidfd = std::move(*pidfd);
    return false;
  }
  keeper_exit = keep(agent, mark);
  return true;
}

}  // namespace stoker::agent
