// The answer comes by a pipe; its end is the end of the answer.
#include "common/os/child_work.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <optional>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/fd.hpp"

namespace stoker::os {
namespace {

constexpr std::size_t kLargest = 64u << 10;

[[noreturn]] void be_child(int pipe, const std::function<std::string()>& work) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int stream = 0; stream <= 2;
       ++stream)  // who reads what this process prints waits for its end
    if (null < 0 || ::dup2(null, stream) < 0) ::close(stream);
  const std::string text = work().substr(0, kLargest);
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(pipe, text.data() + at, text.size() - at);
    if (n < 0 && errno != EINTR) break;
    at += static_cast<std::size_t>(std::max<ssize_t>(n, 0));
  }
  ::_exit(0);
}

// Until the child has closed the pipe. Empty: not in time.
std::optional<std::string> read_answer(int pipe, Duration patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  std::string text;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    pollfd waits{pipe, POLLIN, 0};
    const int ready = left.count() <= 0 ? 0 : ::poll(&waits, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    std::array<char, 4096> part{};
    const ssize_t n = ::read(pipe, part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || text.size() > kLargest) return text;
    text.append(part.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace

Result<std::string> work_in_child(Duration patience, const std::function<std::string()>& work) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return fail(errno_error(errno, "cannot make a pipe", ""));
  Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return fail(errno_error(errno, "cannot start a process", ""));
  if (child == 0) be_child(write_end.get(), work);
  write_end.reset();
  auto answer = read_answer(read_end.get(), patience);
  if (!answer) {
    ::kill(child, SIGKILL);
    (void)::waitpid(child, nullptr, WNOHANG);
    return fail(fmt::format("no answer for {}", format_duration(patience)));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return fail("the process that was to do it ended without an answer");
  return *std::move(answer);
}

}  // namespace stoker::os
