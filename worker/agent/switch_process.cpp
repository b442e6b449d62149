// One SOCK_SEQPACKET pair: a packet with the run directory asks, a packet of JSON answers.
#include "worker/agent/switch_process.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "common/os/process.hpp"
#include "common/os/self.hpp"

namespace stoker::agent {
namespace {

constexpr const char* kName = "stoker-switches";  // at most 15 bytes: a comm
constexpr std::size_t kLargest = 256u << 10;
constexpr int kSliceMs = 100;

struct Answer {
  std::string what, object;  // of an error
  SwitchLook look;
  STOKER_FIELDS(Answer, what, object, look)
};

Answer answer_of(const std::string& run_directory) {
  auto look = look_at_switches(run_directory);
  if (!look) return {look.error().what, look.error().object, {}};
  return {"", "", std::move(*look)};
}

}  // namespace

SwitchProcess& SwitchProcess::of_agent() {
  static auto* const kept = new SwitchProcess;  // threads that look outlive main()
  return *kept;
}

void SwitchProcess::start_as(std::vector<std::string> command) {
  const std::lock_guard lock(mutex_);
  command_ = std::move(command);
  started_ = true;
}

Status SwitchProcess::spawn() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
    return fail(errno_error(errno, "cannot create a socket pair", ""));
  os::Fd ours(fds[0]);
  const os::Fd theirs(fds[1]);
  os::SpawnOptions options;
  options.argv = command_;
  if (options.argv.empty())
    options.argv = {os::own_program("stoker-agent"), "switches", "--socket"};
  options.argv.push_back(std::to_string(theirs.get()));
  options.environment = os::current_environment();
  options.keep_fds = {theirs.get()};
  STOKER_TRY(child, os::spawn(options));
  pid_ = child.identity.pid;
  socket_ = std::move(ours);
  asked_ = false;
  return ok();
}

Status SwitchProcess::ended() {
  socket_.reset();
  asked_ = false;
  ::waitpid(pid_.exchange(0), nullptr, WNOHANG);
  return fail("the process that looks at switch files has ended; another one is started");
}

Status SwitchProcess::ask(const std::string& run_directory) {
  if (!socket_) STOKER_TRY_STATUS(spawn());
  if (asked_) return ok();
  if (::send(socket_.get(), run_directory.data(), run_directory.size(), MSG_NOSIGNAL) < 0)
    return ended();
  asked_ = true;
  return ok();
}

Status SwitchProcess::receive() {
  pollfd p{socket_.get(), POLLIN, 0};
  if (::poll(&p, 1, kSliceMs) <= 0) return ok();
  std::string text(kLargest, '\0');
  const ssize_t got = ::recv(socket_.get(), text.data(), text.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return ok();
  if (got <= 0) return ended();
  text.resize(static_cast<std::size_t>(got));
  asked_ = false;
  ++answers_;
  STOKER_TRY(answer, from_json_text<Answer>(text, "switch files", {kLargest, 8}));
  if (answer.what.empty())
    last_ = std::move(answer.look);
  else
    last_ = fail(answer.what, answer.object);
  return ok();
}

Result<SwitchLook> SwitchProcess::look(const std::string& run_directory,
                                       std::optional<Duration> limit) {
  if (!started_) return look_at_switches(run_directory);
  const Instant began = monotonic_now();
  std::optional<std::uint64_t> before;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (!before) before = answers_;
      if (answers_ == *before) {
        STOKER_TRY_STATUS(ask(run_directory));
        STOKER_TRY_STATUS(receive());
      }
      if (answers_ != *before) return last_;
    }
    if (limit && monotonic_now() - began >= *limit)
      return fail(
          fmt::format("the folder has not answered for {} s; no switch file is seen", *limit / 1s),
          run_directory + "/switch");
    std::this_thread::sleep_for(1ms);  // another thread's turn
  }
}

int answer_looks(int socket) {
  sigset_t all;
  ::sigfillset(&all);  // what the scheduler sends to every process is the agent's to handle
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  ::prctl(PR_SET_NAME, kName);
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
  std::string path(kLargest, '\0');
  for (;;) {
    const ssize_t got = ::recv(socket, path.data(), path.size(), 0);
    if (got <= 0) return 0;
    std::string text = to_json_text(answer_of(path.substr(0, static_cast<std::size_t>(got))));
    if (text.size() > kLargest / 2)
      text = to_json_text(Answer{"switch files refused: their text is too long", path, {}});
    if (::send(socket, text.data(), text.size(), MSG_NOSIGNAL) < 0) return 1;
  }
}

Result<std::optional<SwitchSeen>> read_end_switch(const std::string& run_directory,
                                                  Duration limit) {
  STOKER_TRY(look, SwitchProcess::of_agent().look(run_directory, limit));
  for (const char* verb : {"kill", "stop"})
    if (const auto seen = look.find(verb); seen && *seen) return seen;
  return std::optional<SwitchSeen>{};
}

}  // namespace stoker::agent
