// A rank's pipes, its guardian's messages, and its end.
#include "worker/agent/rank/rank_process.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <set>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/self.hpp"
#include "wire/environment.hpp"
#include "worker/agent/rank/guardian.hpp"
#include "worker/agent/rank/process_tree.hpp"
#include "worker/agent/switch_process.hpp"

namespace stoker::agent {
namespace {

constexpr int kPipeBytes = 1 << 20;
constexpr Duration kSettleLimit = 10s;
constexpr Duration kGuardianLimit = 15s;   // to kill what it guards; it gives up after 10 s itself
constexpr std::size_t kReadsPerTurn = 16;  // of 64 KiB: one loud rank does not starve the others

std::set<pid_t>& living_guardians() {  // of the loop's thread
  static std::set<pid_t> guardians;
  return guardians;
}

Result<std::pair<os::Fd, os::Fd>> output_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return fail(errno_error(errno, "cannot create a pipe", ""));
  ::fcntl(fds[0], F_SETFL, O_NONBLOCK);
  ::fcntl(fds[0], F_SETPIPE_SZ, kPipeBytes);  // a hint: an ordinary user's total is limited
  return std::pair(os::Fd(fds[0]), os::Fd(fds[1]));
}

Result<std::pair<os::Fd, os::Fd>> socket_pair(int type) {
  int fds[2];
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) != 0)
    return fail(errno_error(errno, "cannot create a socket pair", ""));
  return std::pair(os::Fd(fds[0]), os::Fd(fds[1]));
}

std::string identity_text(const os::ProcessIdentity& id) {
  return fmt::format("{}:{}", id.pid, id.started);
}

}  // namespace

Result<std::unique_ptr<RankProcess>> RankProcess::start(Loop& loop, const Watchmen& watchmen,
                                                        const RankPlan& plan, Events events) {
  STOKER_TRY(out, output_pipe());
  STOKER_TRY(err, output_pipe());
  STOKER_TRY(link, socket_pair(SOCK_SEQPACKET));
  std::pair<os::Fd, os::Fd> standby;
  os::SpawnOptions options;
  options.argv = {os::own_program("stoker-agent"),
                  "guardian",
                  "--socket",
                  std::to_string(link.second.get()),
                  "--agent",
                  identity_text(watchmen.agent),
                  "--keeper",
                  identity_text(watchmen.keeper),
                  "--mark",
                  watchmen.mark};
  options.environment = plan.environment;
  options.environment[kMarkVariable] = watchmen.mark;
  options.keep_fds = {link.second.get()};
  if (plan.standby) {
    STOKER_TRY(pair, socket_pair(SOCK_STREAM));
    standby = std::move(pair);
    options.environment[wire::env::kStandby] = std::to_string(standby.second.get());
    options.keep_fds.push_back(standby.second.get());
    options.argv.insert(options.argv.end(), {"--standby", std::to_string(standby.second.get())});
  }
  options.argv.push_back("--");
  options.argv.insert(options.argv.end(), plan.command.begin(), plan.command.end());
  options.working_directory = plan.working_directory;
  options.stdout_fd = out.second.get();
  options.stderr_fd = err.second.get();
  STOKER_TRY(child, os::spawn(options));

  auto rank = std::unique_ptr<RankProcess>(new RankProcess(loop));
  RankProcess* self = rank.get();
  rank->events_ = std::move(events);
  rank->guardian_ = std::move(child);
  living_guardians().insert(self->guardian());
  rank->out_ = std::move(out.first);
  rank->err_ = std::move(err.first);
  rank->socket_ = std::move(link.first);
  rank->standby_ = std::move(standby.first);
  loop.watch(self->out_.get(), POLLIN, [self](short) { self->on_output(self->out_); });
  loop.watch(self->err_.get(), POLLIN, [self](short) { self->on_output(self->err_); });
  loop.watch(self->socket_.get(), POLLIN, [self](short) { (void)self->on_message(); });
  loop.watch(self->guardian_.pidfd.get(), POLLIN, [self](short) { self->on_guardian_end(); });
  if (self->standby_)
    loop.watch(self->standby_.get(), POLLIN, [self](short) { self->on_standby(); });
  return rank;
}

RankProcess::~RankProcess() {
  for (const os::Fd* fd : {&out_, &err_, &socket_, &standby_, &guardian_.pidfd})
    if (*fd) loop_.forget(fd->get());
  loop_.cancel(settle_timer_);
  loop_.cancel(kill_timer_);
  living_guardians().erase(guardian());
}

void RankProcess::on_output(os::Fd& fd) {
  char buffer[1 << 16];
  for (std::size_t i = 0; fd && i < kReadsPerTurn; ++i) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      loop_.forget(fd.get());
      fd.reset();
      return;
    }
    if (events_.output) events_.output(&fd == &out_ ? 1 : 2, {buffer, static_cast<std::size_t>(n)});
  }
}

void RankProcess::drain() {
  on_output(out_);
  on_output(err_);
}

void RankProcess::set_exit(int raw) {
  if (status_) return;
  os::ExitStatus status;
  if (WIFEXITED(raw)) status.code = WEXITSTATUS(raw);
  if (WIFSIGNALED(raw)) {
    status.signal = WTERMSIG(raw);
    status.core = WCOREDUMP(raw);
  }
  status_ = status;
  drain();
  if (events_.exited) events_.exited(status);
}

bool RankProcess::on_message() {
  GuardianMessage message;
  const ssize_t n = ::recv(socket_.get(), &message, sizeof message, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (n != static_cast<ssize_t>(sizeof message)) {
    loop_.forget(socket_.get());
    socket_.reset();
    return false;
  }
  message.text[sizeof message.text - 1] = '\0';
  switch (message.word) {
    case GuardianWord::Started: pid_ = message.value; break;
    case GuardianWord::Exited: set_exit(message.value); break;
    case GuardianWord::Clear: told_clear_ = true; break;
    case GuardianWord::Stuck: stuck_ = message.text; break;
    case GuardianWord::Waits:
      if (events_.waits) events_.waits(message.text);
      break;
    case GuardianWord::CannotStart:
      if (events_.output) events_.output(2, std::string("stoker-agent: ") + message.text + "\n");
      set_exit(127 << 8);
      told_clear_ = true;
      break;
  }
  return true;
}

void RankProcess::on_standby() {
  char byte = 0;
  const ssize_t n = ::recv(standby_.get(), &byte, 1, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n == 1 && byte == wire::kStandbyReady) {  // again where it has begun again
    const bool first = !ready_;
    ready_ = true;
    if (first && events_.ready) events_.ready();
    return;
  }
  loop_.forget(standby_.get());
  standby_.reset();
  ready_ = false;
}

Status RankProcess::give_order(const wire::StandbyOrder& order) {
  if (!ready_ || !standby_ || status_) return fail("the standby is not ready");
  const std::string line = to_json_text(order) + "\n";
  const ssize_t n = ::send(standby_.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n != static_cast<ssize_t>(line.size()))
    return fail(errno_error(errno, "cannot hand the order to the standby", ""));
  ready_ = false;
  return ok();
}

// A guardian may have been stopped together with its rank.
void RankProcess::tell_guardian(const GuardianOrder& order) {
  if (socket_) ::send(socket_.get(), &order, sizeof order, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (!clear_ && guardian() > 0) ::kill(guardian(), SIGCONT);
}

void RankProcess::signal_group(int signal) {
  tell_guardian({GuardianVerb::Signal, signal});
}

void RankProcess::kill() {
  tell_guardian({GuardianVerb::Kill, 0});
  if (kill_timer_ == 0 && !clear_)
    kill_timer_ = loop_.after(kGuardianLimit, [this] { end_guardian(); });
}

void RankProcess::end_guardian() {
  kill_timer_ = 0;
  if (clear_ || !stuck_.empty() || living_guardians().count(guardian()) == 0) return;
  for (const pid_t below : os::descendants_of(guardian())) ::kill(below, SIGKILL);
  ::kill(guardian(), SIGKILL);
}

void RankProcess::on_guardian_end() {
  while (socket_ && on_message()) continue;  // what it said before it ended
  loop_.forget(guardian_.pidfd.get());
  ::waitpid(guardian(), nullptr, WNOHANG);
  living_guardians().erase(guardian());
  settle_until_ = monotonic_now() + kSettleLimit;
  settle();
}

void RankProcess::settle() {
  std::vector<pid_t> ours(living_guardians().begin(), living_guardians().end());
  ours.push_back(SwitchProcess::of_agent().pid());
  const auto adopted = told_clear_ ? std::vector<pid_t>{} : adopted_children(ours);
  for (const pid_t pid : adopted) {
    for (const pid_t below : os::descendants_of(pid)) ::kill(below, SIGKILL);
    ::kill(pid, SIGKILL);
    int raw = 0;
    if (::waitpid(pid, &raw, WNOHANG) == pid && pid == pid_) set_exit(raw);
  }
  if (!adopted.empty() && monotonic_now() < settle_until_) {
    settle_timer_ = loop_.after(5ms, [this] { settle(); });
    return;
  }
  settle_timer_ = 0;
  if (!adopted.empty()) stuck_ = describe_processes(adopted);
  if (!status_) set_exit(SIGKILL);  // it died with its guardian and cannot be asked any more
  drain();
  clear_ = true;
  if (events_.clear) events_.clear(stuck_);
}

namespace {

bool is_tool(pid_t pid) {
  const auto environment = os::read_file(fmt::format("/proc/{}/environ", pid), 4u << 20);
  return environment && environment->find(std::string(kToolVariable) + "=1") != std::string::npos;
}

}  // namespace

std::vector<pid_t> adopted_children(const std::vector<pid_t>& guardians) {
  std::vector<pid_t> adopted;
  for (const pid_t pid : children_of(::getpid()))
    if (std::find(guardians.begin(), guardians.end(), pid) == guardians.end() && !is_tool(pid))
      adopted.push_back(pid);
  return adopted;
}

void kill_tools() {
  for (const pid_t pid : children_of(::getpid()))
    if (is_tool(pid)) ::kill(pid, SIGKILL);
}

}  // namespace stoker::agent
