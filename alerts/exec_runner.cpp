// Children with their input in an anonymous file, so that no write can block.
#include "alerts/exec_runner.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace stoker::alerts {

namespace {

constexpr std::size_t kKeptWords = 1024;
constexpr Duration kBetweenTermAndKill = 2s;
constexpr const char* kLauncher = "/usr/bin/env";

Result<os::Fd> input_file(const std::string& text) {
  os::Fd file(::memfd_create("alert", MFD_CLOEXEC));
  if (!file) return fail(errno_error(errno, "cannot make the input of a command", ""));
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(file.get(), text.data() + at, text.size() - at);
    if (n < 0) return fail(errno_error(errno, "cannot write the input of a command", ""));
    at += static_cast<std::size_t>(n);
  }
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

// What a notifier needs, and nothing that the daemon's environment may hold besides.
std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> kept;
  for (const auto& [name, value] : os::current_environment())
    for (const char* wanted : {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR"})
      if (name == wanted) kept[name] = value;
  kept.try_emplace("PATH", "/usr/local/bin:/usr/bin:/bin");
  return kept;
}

std::string last_line(std::string text) {
  const auto end = text.find_last_not_of(" \r\n");
  text.resize(end == std::string::npos ? 0 : end + 1);
  const auto begin = text.find_last_of("\r\n");
  return one_line(begin == std::string::npos ? text : text.substr(begin + 1), 200);
}

}  // namespace

ExecRunner::~ExecRunner() {
  for (Running& running : running_) {
    ::kill(-running.child.identity.pid, SIGKILL);
    ::kill(running.child.identity.pid, SIGKILL);
    (void)os::try_wait(running.child);
  }
}

Status ExecRunner::start(std::uint64_t id, const ExecRequest& request) {
  STOKER_TRY(input, input_file(request.input));
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return fail(errno_error(errno, "cannot make a pipe for a command", ""));
  Running running;
  running.words.reset(ends[0]);
  const os::Fd write_end(ends[1]);
  ::fcntl(running.words.get(), F_SETFL, O_NONBLOCK);
  os::SpawnOptions options;
  if (request.argv.front().find('=') != std::string::npos)  // env(1) would set a variable
    return fail("cannot be executed: there is a '=' in its name", request.argv.front());
  options.argv = {kLauncher, "--"};
  options.argv.insert(options.argv.end(), request.argv.begin(), request.argv.end());
  options.environment = environment();
  options.working_directory = "/";
  options.stdin_fd = input.get();
  options.stderr_fd = write_end.get();
  options.parent_death_signal = SIGKILL;
  STOKER_TRY(child, os::spawn(options));
  running.id = id;
  running.child = std::move(child);
  running.limit = request.timeout;
  running.deadline = monotonic_now() + request.timeout;
  running_.push_back(std::move(running));
  return ok();
}

std::vector<int> ExecRunner::descriptors() const {
  std::vector<int> all;
  for (const Running& running : running_) {
    all.push_back(running.child.pidfd.get());
    if (running.words) all.push_back(running.words.get());
  }
  return all;
}

Duration ExecRunner::patience(Duration longest) const {
  for (const Running& running : running_)
    longest = std::min(longest, running.deadline - monotonic_now());
  return std::max(longest, Duration::zero());
}

void ExecRunner::read_words(Running& running) {
  std::array<char, 4096> buffer{};
  // A child that writes without end must not hold this thread: a few pieces at a time.
  for (int pieces = 0; running.words && pieces < 16; ++pieces) {
    const ssize_t n = ::read(running.words.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;
    if (n == 0) return running.words.reset();
    running.said.append(buffer.data(), static_cast<std::size_t>(n));
    if (running.said.size() > kKeptWords) running.said.erase(0, running.said.size() - kKeptWords);
  }
}

std::vector<std::pair<std::uint64_t, Answer>> ExecRunner::collect() {
  std::vector<std::pair<std::uint64_t, Answer>> answers;
  std::erase_if(left_, [](const os::Child& child) {
    const auto ended = os::try_wait(child);
    return !ended || *ended;
  });
  for (std::size_t i = 0; i < running_.size();) {
    Running& running = running_[i];
    if (monotonic_now() >= running.deadline) {
      ::kill(-running.child.identity.pid, running.signals > 0 ? SIGKILL : SIGTERM);
      ++running.signals;
      running.deadline = monotonic_now() + kBetweenTermAndKill;
    }
    const auto ended = os::try_wait(running.child);
    read_words(running);
    const bool asleep = running.signals > 2;  // not even SIGKILL ends it
    if (ended && !*ended && !asleep) {
      ++i;
      continue;
    }
    Answer answer;
    const std::string words = last_line(running.said);
    const std::string tail = words.empty() ? "" : ": " + words;
    if (!ended)
      answer.error = ended.error().message();
    else if (running.signals > 0)
      answer.error = "the command ran longer than " + format_duration(running.limit) +
                     (asleep ? ", and cannot be killed" : "") + tail;
    else if (!(*ended)->ok())
      answer.error = (*ended)->text() + tail;
    if (ended && *ended) answer.status = (*ended)->code;
    if (ended && !*ended) left_.push_back(std::move(running.child));
    answers.emplace_back(running.id, std::move(answer));
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return answers;
}

}  // namespace stoker::alerts
