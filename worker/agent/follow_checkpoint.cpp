// The command has a session of its own: a signal to this process goes to all of it, and what it
// leaves behind ends with it.
#include "worker/agent/follow_checkpoint.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <optional>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "common/os/process.hpp"
#include "common/printable.hpp"
#include "watch/foreign_checkpoints.hpp"
#include "wire/environment.hpp"
#include "wire/exit_code.hpp"
#include "wire/run_directory.hpp"
#include "worker/agent/hidden_values.hpp"

namespace stoker::agent {
namespace {

constexpr std::size_t kLargestOrder = 1u << 20;
constexpr Duration kGrace = 20s;  // from TERM to KILL: within what a scheduler gives (30 s)
constexpr int kOwnTerm = 2000;    // ms
constexpr int kWriteTries = 60;   // a second apart: a disk that is full for a moment
constexpr off_t kTail = 16384;    // bytes of output that are read for the last line

int complain(int code, const std::string& text) {
  tell_stderr("stoker-agent follow: " + text);
  return code;
}

Result<wire::FollowOrder> read_order(const FollowOptions& options) {
  const std::string path = options.folder + "/" + wire::kFollowOrder;
  STOKER_TRY(text, os::read_own_file(options.folder, wire::kFollowOrder, kLargestOrder));
  STOKER_TRY(order, from_json_text<wire::FollowOrder>(text, path, {kLargestOrder, 8}));
  if (order.token.text != options.token)
    return fail(
        fmt::format("nothing is started: try {} has taken the place of this one", order.number),
        path);
  if (order.command.empty()) return fail("it has no command", path);
  return order;
}

Result<wire::FollowOrder> wait_for_order(const FollowOptions& options) {
  const Instant until = monotonic_now() + options.patience;
  for (;;) {
    auto order = read_order(options);
    if (order || monotonic_now() >= until) return order;
    ::sleep(1);
  }
}

// Where the checkpoint is; Error: it is not there.
Result<std::string> checkpoint_of(const wire::FollowOrder& order) {
  if (!order.checkpoint.empty()) {
    if (os::exists(order.checkpoint)) return order.checkpoint;
    return fail("the checkpoint is not there", order.checkpoint);
  }
  const auto found = watch::foreign_checkpoint_path(order.checkpoint_directory, order.iteration);
  if (found) return *found;
  return fail(fmt::format("no checkpoint of iteration {} is there", order.iteration.value),
              order.checkpoint_directory);
}

std::map<std::string, std::string> environment_of(const wire::FollowOrder& order,
                                                  const std::string& checkpoint) {
  auto e = os::current_environment();
  e.emplace("PYTHONUNBUFFERED", "1");
  for (const auto& [name, value] : order.environment) e[name] = value;
  e[wire::env::kRun] = order.run.text;
  e[wire::env::kRunDirectory] = order.directory;
  e[wire::env::kGeneration] = std::to_string(order.generation.value);
  e[wire::env::kCheckpoint] = checkpoint;
  e[wire::env::kIteration] = std::to_string(order.iteration.value);
  e[wire::env::kFollower] = order.follower;
  e[wire::env::kFollowTry] = std::to_string(order.number);
  return e;
}

os::Fd signal_fd() {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&set, s);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  return os::Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

// SLURM signals all processes of a job: the command may end before our own TERM is here.
bool was_terminated(const os::ExitStatus& status) {
  return status.signal == SIGTERM || status.code == 128 + SIGTERM;
}

// Runs it to its end. TERM is passed on, and after a grace followed by KILL.
Result<os::ExitStatus> run_command(const os::SpawnOptions& options, const os::Fd& signals,
                                   bool& ordered) {
  STOKER_TRY(child, os::spawn(options));
  const pid_t group = child.identity.pid;
  std::optional<Instant> kill_at;
  const auto take_signals = [&](bool pass_on) {
    signalfd_siginfo info{};
    while (::read(signals.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (pass_on) ::kill(-group, signal);
      if (pass_on) ::kill(-group, SIGCONT);
      ordered = ordered || signal == SIGTERM;
      if (signal == SIGTERM && !kill_at) kill_at = monotonic_now() + kGrace;
    }
  };
  for (;;) {
    STOKER_TRY(status, os::try_wait(child));
    if (status) {
      ::kill(-group, SIGKILL);  // what it has left behind in its group
      take_signals(false);
      pollfd fds{signals.get(), POLLIN, 0};
      if (!ordered && was_terminated(*status) && ::poll(&fds, 1, kOwnTerm) > 0) take_signals(false);
      return *status;
    }
    take_signals(true);
    if (kill_at && *kill_at <= monotonic_now()) ::kill(-group, SIGKILL);
    pollfd fds[2] = {{child.pidfd.get(), POLLIN, 0}, {signals.get(), POLLIN, 0}};
    ::poll(fds, 2, 1000);
  }
}

int write_end(const FollowOptions& options, wire::FollowEnd end) {
  end.token = Token(options.token);
  end.at = wall_now();
  const int code = end.signal != 0 ? 128 + end.signal : end.code;
  const std::string path = options.folder + "/" + wire::follow_end(end.token);
  const std::string text = to_json_text(end) + "\n";
  for (int i = 0; i < kWriteTries; ++i) {
    const Status written = os::replace_file(path, text, os::Durability::Synced, 0600);
    if (written) return code;
    tell_stderr("stoker-agent follow: " + written.error().message());
    ::sleep(1);
  }
  return code == 0 ? 1 : code;
}

wire::FollowEnd not_run(const std::string& why) {
  wire::FollowEnd end;
  end.code = 127;
  end.words = why;
  return end;
}

wire::FollowEnd run_order(const FollowOptions& options, const wire::FollowOrder& order) {
  const auto checkpoint = checkpoint_of(order);
  if (!checkpoint) return not_run(checkpoint.error().message());
  const std::string path = options.folder + "/" + wire::follow_output(order.token);
  const os::Fd output(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!output) return not_run(errno_error(errno, "cannot write", path).message());
  os::SpawnOptions spawn;
  spawn.argv = filled_command(order, *checkpoint);
  spawn.environment = environment_of(order, *checkpoint);
  spawn.working_directory = order.directory;
  spawn.stdout_fd = spawn.stderr_fd = output.get();
  wire::keep_writers_out(order.directory);
  const os::Fd signals = signal_fd();
  const Instant began = monotonic_now();
  wire::FollowEnd end;
  const auto status = run_command(spawn, signals, end.ordered);
  if (!status) return not_run(status.error().message());
  end.code = status->code;
  end.signal = status->signal;
  end.seconds = to_seconds(monotonic_now() - began);
  end.words = last_words(path, order.environment);
  return end;
}

}  // namespace

std::vector<std::string> filled_command(const wire::FollowOrder& order,
                                        const std::string& checkpoint) {
  const std::pair<std::string_view, std::string> values[] = {
      {"{checkpoint}", checkpoint},
      {"{iteration}", std::to_string(order.iteration.value)},
      {"{run}", order.run.text},
  };
  std::vector<std::string> argv;
  for (const std::string& argument : order.command) {
    std::string filled;
    for (std::size_t at = 0; at < argument.size();) {
      const auto value = std::find_if(std::begin(values), std::end(values), [&](const auto& v) {
        return std::string_view(argument).substr(at).starts_with(v.first);
      });
      if (value == std::end(values)) {
        filled += argument[at++];
      } else {
        filled += value->second;
        at += value->first.size();
      }
    }
    argv.push_back(std::move(filled));
  }
  return argv;
}

std::string last_words(const std::string& output_path,
                       const std::map<std::string, std::string>& environment) {
  const os::Fd fd(::open(output_path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return "";
  const off_t size = ::lseek(fd.get(), 0, SEEK_END);
  std::string text(static_cast<std::size_t>(std::clamp<off_t>(size, 0, kTail)), '\0');
  const ssize_t got =
      ::pread(fd.get(), text.data(), text.size(), size - static_cast<off_t>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.pop_back();
  const auto line = text.find_last_of("\r\n");
  if (line != std::string::npos) text.erase(0, line + 1);
  text = without_values(std::move(text), environment);
  return printable(text.substr(0, wire::kLongestWords));
}

int follow_checkpoint(const FollowOptions& options) {
  if (const char* node = ::getenv("SLURM_NODEID"); node != nullptr && std::string(node) != "0")
    return 0;  // the command is the first node's
  const auto order = wait_for_order(options);
  if (!order) return complain(wire::kAgentUsage, order.error().message());
  const std::string claim = options.folder + "/" + wire::follow_claim(order->token);
  const auto ours = os::claim_file(claim, fmt::format("{} {}\n", os::host_name(), ::getpid()));
  if (!ours) return complain(wire::kAgentUsage, ours.error().message());
  if (!*ours)
    return complain(wire::kAgentClaimed,
                    "nothing is started: this try has been started before (" + claim + ")");
  return write_end(options, run_order(options, *order));
}

}  // namespace stoker::agent
