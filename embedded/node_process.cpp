#include "embedded/node_process.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <optional>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "common/os/files.hpp"
#include "common/os/machine_short.hpp"
#include "common/printable.hpp"
#include "embedded/node_folder.hpp"
#include "embedded/port_lease.hpp"
#include "embedded/sweep.hpp"
#include "wire/environment.hpp"

namespace stoker::embedded {
namespace {

constexpr Duration kSweepLimit = 10s;

int complain(const Error& error) {
  tell_stderr("stokerd local-node: " + error.message());
  return 1;
}

// When a step of the ladder at the wall is due. The signal never comes in the first half of the
// limit: a limit shorter than signal_before would otherwise end every task at its start.
WallTime signal_time(const NodeSpec& spec, WallTime started) {
  return std::max(spec.ends - spec.signal_before, started + (spec.ends - started) / 2);
}

class NodeProcess {
 public:
  NodeProcess(NodeFolder folder, NodeSpec spec) : folder_(std::move(folder)), spec_(spec) {}

  Status prepare();
  NodeExit run();

 private:
  Status start_agent();
  bool is_asked_to_end();
  void say(const std::string& text);
  void take_signals();
  void keep_limit();
  void ask_to_leave(const char* why);
  [[nodiscard]] int wait_ms() const;
  bool reap();  // true: the agent has ended

  NodeFolder folder_;
  NodeSpec spec_;
  PortLease ports_;
  os::Fd signals_, log_;
  os::Child agent_;
  std::optional<os::ExitStatus> agent_status_;
  WallTime started_ = wall_now();
  std::optional<WallTime> kill_at_;
  bool signalled_ = false, killed_ = false, said_short_ = false;
  std::string why_;
};

Status NodeProcess::prepare() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGINT, SIGCONT, SIGCHLD})
    sigaddset(&set, s);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = os::Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return fail(errno_error(errno, "cannot create a signalfd", folder_.path()));
  STOKER_TRY_STATUS(folder_.reserve_exit());
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
  log_ = os::Fd(::open(folder_.output().c_str(), kFlags, 0600));
  if (!log_) return fail(errno_error(errno, "cannot create", folder_.output()));
  return ok();
}

// Into the job's output.
void NodeProcess::say(const std::string& text) {
  const std::string line = text + "\n";
  [[maybe_unused]] const auto n = ::write(log_.get(), line.data(), line.size());
}

Status NodeProcess::start_agent() {
  auto lease = lease_ports();
  os::SpawnOptions options;
  options.argv = spec_.argv;
  options.environment = spec_.environment;
  options.environment[wire::env::kLocalMark] = spec_.mark;
  options.environment.erase(wire::env::kPortRange);
  if (lease) {
    ports_ = std::move(*lease);
    options.environment[wire::env::kPortRange] = ports_.text();
  } else {  // no reason not to train
    say(lease.error().message() + fmt::format("; started without {}", wire::env::kPortRange));
  }
  options.working_directory = spec_.working_directory;
  options.stdout_fd = options.stderr_fd = log_.get();
  options.parent_death_signal = SIGKILL;
  // What other users have used up comes back. A job that cannot start is no failed one.
  constexpr int kAgainMs = 1000;
  while (true) {
    auto child = os::spawn(options);
    if (child) {
      agent_ = std::move(*child);
      return ok();
    }
    if (!os::is_machine_short(child.error()) || wall_now() >= spec_.ends)
      return fail(child.error());
    if (!std::exchange(said_short_, true))
      say(child.error().message() + "; tried again until it can");
    pollfd p{signals_.get(), POLLIN, 0};
    if (::poll(&p, 1, kAgainMs) > 0 && is_asked_to_end())
      return fail("ended before its start", folder_.path());
  }
}

// Before there is an agent that signals could go to.
bool NodeProcess::is_asked_to_end() {
  bool ends = false;
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info)
    ends = ends || info.ssi_signo == SIGTERM;
  return ends;
}

bool NodeProcess::reap() {
  while (true) {
    int raw = 0;
    const pid_t pid = ::waitpid(-1, &raw, WNOHANG);
    if (pid <= 0) return agent_status_.has_value();
    if (pid != agent_.identity.pid) continue;
    os::ExitStatus status;
    if (WIFEXITED(raw)) status.code = WEXITSTATUS(raw);
    if (WIFSIGNALED(raw)) status.signal = WTERMSIG(raw);
    agent_status_ = status;
  }
}

void NodeProcess::ask_to_leave(const char* why) {
  if (kill_at_) return;
  why_ = why;
  kill_at_ = wall_now() + spec_.kill_wait;
  ::kill(-agent_.identity.pid, SIGTERM);  // its session's first group; not reaped yet: no reuse
  ::kill(-agent_.identity.pid, SIGCONT);  // a stopped one would not receive it
}

void NodeProcess::take_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGTERM)
      ask_to_leave("term");
    else if (signal != SIGCHLD && !agent_status_)
      ::kill(agent_.identity.pid, signal);
  }
}

void NodeProcess::keep_limit() {
  const WallTime now = wall_now();
  if (!signalled_ && !kill_at_ && spec_.signal_before > 0s && now >= signal_time(spec_, started_)) {
    signalled_ = true;
    const int signal = signal_number(spec_.signal);
    if (signal != 0) ::kill(agent_.identity.pid, signal);
  }
  if (!kill_at_ && now >= spec_.ends) ask_to_leave("limit");
  if (kill_at_ && !killed_ && now >= *kill_at_) {
    killed_ = true;
    (void)sweep({spec_.mark, ::getpid(), false}, kSweepLimit);
  }
}

int NodeProcess::wait_ms() const {
  const WallTime now = wall_now();
  WallTime next = now + 5s;  // the wall clock may be set: look again from time to time
  if (kill_at_ && !killed_) next = std::min(next, *kill_at_);
  if (!kill_at_) next = std::min(next, spec_.ends);
  if (!kill_at_ && !signalled_ && spec_.signal_before > 0s)
    next = std::min(next, signal_time(spec_, started_));
  return static_cast<int>(std::max(Duration(1ms), next - now) / 1ms) + 1;
}

NodeExit NodeProcess::run() {
  NodeExit exit;
  if (const Status started = start_agent(); !started) {
    say(started.error().message());
    return {127, 0, "launch", started.error().message(), 0};
  }
  while (!reap()) {
    keep_limit();
    pollfd p{signals_.get(), POLLIN, 0};
    ::poll(&p, 1, wait_ms());
    take_signals();
  }
  exit.unkillable = sweep({spec_.mark, ::getpid(), false}, kSweepLimit);
  exit.exit_code = agent_status_->code;
  exit.signal = agent_status_->signal;
  exit.why = why_;
  exit.detail = agent_status_->text();
  return exit;
}

}  // namespace

int run_node_process(const std::string& path) {
  const NodeFolder folder(path);
  const auto spec = folder.read_spec();
  if (!spec) return complain(spec.error());
  const auto self = os::identify(::getpid());
  if (!self) return complain(self.error());
  NodeProcess process(folder, *spec);
  if (const Status ready = process.prepare(); !ready) return complain(ready.error());
  const auto mine = folder.claim({self->pid, self->started, os::boot_id()});
  if (!mine) return complain(mine.error());
  if (!*mine) return 0;  // another one runs here, or the scheduler withdrew the start
  const NodeExit exit = process.run();
  for (int attempt = 0; attempt < 60; ++attempt) {
    const Status written = folder.write_exit(exit);
    if (written) return 0;
    complain(written.error());
    const timespec pause{1, 0};
    ::nanosleep(&pause, nullptr);
  }
  return 1;
}

}  // namespace stoker::embedded
