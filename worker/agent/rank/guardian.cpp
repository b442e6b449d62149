// The guardian of one rank: starts it, forwards signals, and ends with it. See guardian.hpp.
#include "worker/agent/rank/guardian.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/machine_short.hpp"
#include "worker/agent/rank/process_tree.hpp"

namespace stoker::agent {
namespace {

constexpr const char* kGuardianName = "stoker-guardian";  // at most 15 bytes: a comm
constexpr Duration kKillLimit = 10s;
constexpr Duration kLeftoverGrace = 1s;  // for what a rank that ended well left behind

void tell(int socket, GuardianWord word, std::int32_t value, const std::string& text = {}) {
  GuardianMessage message;
  message.word = word;
  message.value = value;
  std::strncpy(message.text, text.c_str(), sizeof message.text - 1);
  [[maybe_unused]] const ssize_t n =
      ::send(socket, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

struct Guard {
  const GuardianPlan& plan;
  os::Fd agent, keeper, child_signal;
  pid_t rank = 0;
  bool rank_gone = false;

  // Reaps; reports the rank's status. True: no child is left.
  bool reap() {
    while (true) {
      int raw = 0;
      const pid_t pid = ::waitpid(-1, &raw, WNOHANG);
      if (pid < 0 && errno == EINTR) continue;
      if (pid <= 0) return pid < 0;
      if (pid != rank) continue;
      rank_gone = true;
      tell(plan.socket, GuardianWord::Exited, raw);
      const bool well = WIFEXITED(raw) && WEXITSTATUS(raw) == 0;
      if (well && signal_descendants(SIGTERM) > 0)
        leftover_until = monotonic_now() + kLeftoverGrace;
    }
  }

  void kill_all() {
    if (!rank_gone) ::kill(-rank, SIGKILL);
    const Instant deadline = monotonic_now() + kKillLimit;
    while (!reap() && monotonic_now() < deadline) {
      signal_descendants(SIGKILL);
      if (reap()) return;
      ::poll(nullptr, 0, 2);
    }
    if (const auto left = os::descendants_of(::getpid()); !left.empty())
      tell(plan.socket, GuardianWord::Stuck, static_cast<std::int32_t>(left.size()),
           describe_processes(left));
  }

  Instant leftover_until{};
};

// The agent or the keeper is gone: nothing may stay, not even what another guardian lost.
int end_everything(Guard& guard) {
  guard.kill_all();
  // Other guardians end their own trees: killed here, their orphans would have no one.
  kill_marked(guard.plan.mark, processes_named(kGuardianName), kKillLimit);
  return 1;
}

bool obey(Guard& guard) {  // false: the agent's end is closed
  GuardianOrder order;
  const ssize_t n = ::recv(guard.plan.socket, &order, sizeof order, MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n != static_cast<ssize_t>(sizeof order)) return false;
  switch (order.verb) {
    case GuardianVerb::Signal:
      if (!guard.rank_gone) ::kill(-guard.rank, order.signal);
      break;
    case GuardianVerb::Kill: guard.kill_all(); break;
  }
  return true;
}

// The rank, as soon as the machine has a process for it. An order meanwhile ends the attempt; so
// does the end of the agent or the keeper.
Result<os::Child> start_rank(const Guard& guard, const os::SpawnOptions& options) {
  constexpr int kAgainMs = 1000;
  while (true) {
    auto started = os::spawn(options);
    if (started || !os::is_machine_short(started.error())) return started;
    tell(guard.plan.socket, GuardianWord::Waits, 0, started.error().message());
    pollfd polls[3] = {{guard.plan.socket, POLLIN, 0},
                       {guard.agent.get(), POLLIN, 0},
                       {guard.keeper.get(), POLLIN, 0}};
    if (::poll(polls, 3, kAgainMs) > 0) return started;
  }
}

int guard_loop(Guard& guard) {
  while (true) {
    if (guard.reap()) break;
    if (guard.rank_gone && monotonic_now() >= guard.leftover_until) {
      guard.kill_all();
      break;
    }
    pollfd polls[4] = {{guard.plan.socket, POLLIN, 0},
                       {guard.agent.get(), POLLIN, 0},
                       {guard.keeper.get(), POLLIN, 0},
                       {guard.child_signal.get(), POLLIN, 0}};
    if (::poll(polls, 4, guard.rank_gone ? 20 : -1) < 0 && errno != EINTR) break;
    if (polls[1].revents != 0 || polls[2].revents != 0) return end_everything(guard);
    if (polls[3].revents != 0) {
      signalfd_siginfo info;
      [[maybe_unused]] const ssize_t n = ::read(guard.child_signal.get(), &info, sizeof info);
    }
    if (polls[0].revents != 0 && !obey(guard)) return end_everything(guard);
  }
  const auto left = os::descendants_of(::getpid());
  if (left.empty()) tell(guard.plan.socket, GuardianWord::Clear, 0);
  return left.empty() ? 0 : 1;
}

}  // namespace

int run_guardian(const GuardianPlan& plan) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, kGuardianName);
  ::fcntl(plan.socket, F_SETFD, FD_CLOEXEC);  // ours alone
  Guard guard{plan, {}, {}, {}, 0, false, {}};
  auto agent = os::open_process(plan.agent);
  auto keeper = os::open_process(plan.keeper);
  if (!agent || !keeper) return 1;  // gone before we began
  guard.agent = std::move(*agent);
  guard.keeper = std::move(*keeper);
  sigset_t set;
  sigfillset(&set);  // what the scheduler sends to every process is the agent's to handle
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  guard.child_signal = os::Fd(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));

  os::SpawnOptions options;
  options.argv = plan.command;
  options.environment = os::current_environment();
  options.stdout_fd = STDOUT_FILENO;
  options.stderr_fd = STDERR_FILENO;
  options.parent_death_signal = SIGKILL;
  if (plan.standby >= 0) options.keep_fds.push_back(plan.standby);
  const auto started = start_rank(guard, options);
  if (!started) {
    tell(plan.socket, GuardianWord::CannotStart, 0, started.error().message());
    return 1;
  }
  guard.rank = started->identity.pid;
  if (plan.standby >= 0) ::close(plan.standby);
  // The pipes' write ends belong to the rank alone: their end is the end of its output.
  ::close(STDOUT_FILENO);
  ::close(STDERR_FILENO);
  tell(plan.socket, GuardianWord::Started, guard.rank);
  return guard_loop(guard);
}

}  // namespace stoker::agent
