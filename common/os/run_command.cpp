// run_command: one bounded child with its streams captured.
#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "common/os/process.hpp"

namespace stoker::os {
namespace {

struct Pipe {
  Fd read, write;
};
Result<Pipe> make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return fail(errno_error(errno, "cannot create a pipe", ""));
  return Pipe{Fd(fds[0]), Fd(fds[1])};
}

struct Capture {
  Fd fd;
  std::string* into;
  const std::function<bool(std::string_view)>* take = nullptr;
};

enum class Ended : std::uint8_t { ByItself, TooLate, Enough };

enum class Drained : std::uint8_t { More, End, Enough };

Drained drain_once(Capture& capture, std::size_t limit, bool& truncated) {
  char buffer[1 << 16];
  const ssize_t n = ::read(capture.fd.get(), buffer, sizeof buffer);
  if (n < 0) return errno == EINTR || errno == EAGAIN ? Drained::More : Drained::End;
  if (n == 0) return Drained::End;
  if (capture.take != nullptr) {
    if ((*capture.take)({buffer, static_cast<std::size_t>(n)})) return Drained::More;
    truncated = true;
    return Drained::Enough;
  }
  const std::size_t room = limit - std::min(limit, capture.into->size());
  const std::size_t take = std::min(room, static_cast<std::size_t>(n));
  capture.into->append(buffer, take);
  if (take < static_cast<std::size_t>(n)) truncated = true;
  return Drained::More;
}

int remaining_ms(Instant end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - monotonic_now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

// Reads both streams until they end or the deadline passes.
Ended capture_until(Instant deadline, Capture (&captures)[2], std::size_t limit, bool& truncated) {
  while (captures[0].fd || captures[1].fd) {
    pollfd polls[2] = {{captures[0].fd.get(), POLLIN, 0}, {captures[1].fd.get(), POLLIN, 0}};
    const int left = remaining_ms(deadline);
    if (left == 0) return Ended::TooLate;
    if (::poll(polls, 2, left) < 0 && errno != EINTR) return Ended::TooLate;
    for (int i = 0; i < 2; ++i) {
      if (!captures[i].fd || (polls[i].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      const Drained drained = drain_once(captures[i], limit, truncated);
      if (drained == Drained::Enough) return Ended::Enough;
      if (drained == Drained::End) captures[i].fd.reset();
    }
  }
  return Ended::ByItself;
}

bool wait_until(const Child& child, Instant deadline) {
  pollfd p{child.pidfd.get(), POLLIN, 0};
  while (true) {
    const int n = ::poll(&p, 1, remaining_ms(deadline));
    if (n > 0) return true;
    if (n == 0 || errno != EINTR) return false;
  }
}

// Its last output before the timeout, shown to the user.
std::string last_line(const std::string& text) {
  const auto end = text.find_last_not_of("\r\n");
  if (end == std::string::npos) return "";
  const auto before = text.find_last_of("\r\n", end);
  const auto begin = before == std::string::npos ? 0 : before + 1;
  return "it had said: " + text.substr(begin, std::min<std::size_t>(end + 1 - begin, 400));
}

}  // namespace

Result<CommandOutput> run_command(const SpawnOptions& options, Duration limit,
                                  std::size_t output_limit, const std::string& input) {
  STOKER_TRY(out, make_pipe());
  STOKER_TRY(err, make_pipe());
  STOKER_TRY(in, make_pipe());
  SpawnOptions plan = options;
  plan.stdout_fd = out.write.get();
  plan.stderr_fd = err.write.get();
  plan.stdin_fd = in.read.get();
  STOKER_TRY(child, spawn(plan));
  out.write.reset();
  err.write.reset();
  in.read.reset();
  ::fcntl(in.write.get(), F_SETFL,
          O_NONBLOCK);  // at most a pipe's worth of input: never blocks on the child
  if (!input.empty() && ::write(in.write.get(), input.data(), input.size()) < 0 && errno != EPIPE)
    return fail(errno_error(errno, "cannot write to the command", options.argv.front()));
  in.write.reset();

  CommandOutput result;
  Capture captures[2] = {{std::move(out.read), &result.out}, {std::move(err.read), &result.err}};
  const Instant deadline = monotonic_now() + limit;
  if (options.take) captures[0].take = &options.take;
  const Ended ended = capture_until(deadline, captures, output_limit, result.truncated);
  if (ended != Ended::ByItself || !wait_until(child, deadline)) {
    ::kill(-child.identity.pid, SIGTERM);
    if (!wait_until(child, monotonic_now() + 2s)) {
      ::kill(-child.identity.pid, SIGKILL);
      wait_until(child, monotonic_now() + 2s);
    }
    (void)try_wait(child);
    if (ended == Ended::Enough) return result;
    return fail("timed out after " + format_duration(limit), options.argv.front(),
                last_line(result.err));
  }
  STOKER_TRY(status, try_wait(child));
  if (!status) return fail("ended but could not be reaped", options.argv.front());
  result.status = *status;
  return result;
}

}  // namespace stoker::os
