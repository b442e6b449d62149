// Non-blocking connect, write and read on one unix socket, each waiting no longer than the
// deadline.
#include "cli/read/daemon_client.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/listener.hpp"
#include "common/os/own_files.hpp"

namespace stoker::cli {
namespace {

constexpr std::size_t kMaxLine = 1u << 20;
constexpr Duration kPingLimit = 60ms;
constexpr Duration kAskAgain = 20ms;

Answer lost(Reach reach, std::string why) {
  return {reach, {}, std::move(why)};
}

// Waits for `events`; false when the deadline has passed.
bool wait_for(int fd, short events, Instant deadline) {
  for (;;) {
    const Duration left = deadline - monotonic_now();
    if (left <= Duration(0)) return false;
    pollfd p{fd, events, 0};
    const auto ms =
        static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(left).count()) + 1;
    const int n = ::poll(&p, 1, ms);
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

// Who listens was asked of the kernel at its listen(2). "" = somebody who may be believed.
std::string why_not_trusted(int socket, int folder) {
  ucred server{};
  socklen_t size = sizeof server;
  struct stat info {};
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &server, &size) != 0 ||
      ::fstat(folder, &info) != 0)
    return "it cannot be seen who listens on it";
  if (server.uid == 0 || server.uid == ::geteuid()) return "";
  const bool owners_alone = (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (server.uid == info.st_uid && owners_alone) return "";
  return "refused: " + os::user_name_of(server.uid) + " listens on it, not the owner " +
         os::user_name_of(info.st_uid) + " of the state directory";
}

// The socket's path may be longer than sun_path: it is reached through its folder's descriptor.
bool connect_in(const std::string& state, os::Fd& fd, std::string& impostor) {
  const os::Fd folder(::open(state.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return false;
  fd.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = "/proc/self/fd/" + std::to_string(folder.get()) + "/stokerd.sock";
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return false;
  if (os::is_served_by_dead(fd.get())) {
    errno = ECONNREFUSED;
    return false;
  }
  impostor = why_not_trusted(fd.get(), folder.get());
  return true;
}

bool send_all(int fd, std::string_view text, Instant deadline) {
  while (!text.empty()) {
    const ssize_t n = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (n > 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (n < 0 && errno == EAGAIN) {
      if (!wait_for(fd, POLLOUT, deadline)) return false;
    } else if (n < 0 && errno != EINTR) {
      return false;
    }
  }
  return true;
}

// One line without its newline; false on the deadline, an early end or too long a line.
bool receive_line(int fd, std::string& line, Instant deadline) {
  char buffer[16384];
  while (line.size() <= kMaxLine) {
    if (!wait_for(fd, POLLIN, deadline)) return false;
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (n < 0) continue;
    line.append(buffer, static_cast<std::size_t>(n));
    if (const std::size_t end = line.find('\n'); end != std::string::npos) {
      line.resize(end);
      return true;
    }
  }
  return false;
}

// One connection.
Answer ask_once(const std::string& state, const std::string& line, Instant deadline,
                Duration limit) {
  const std::string socket = state + "/stokerd.sock";
  os::Fd fd;
  std::string impostor;
  if (!connect_in(state, fd, impostor)) {
    if (errno == EAGAIN) return lost(Reach::Busy, "the daemon has too many connections");
    if (errno == EACCES || errno == EPERM)
      return lost(Reach::Barred, "you may not talk to the daemon at " + socket);
    return lost(Reach::Away, "no daemon listens on " + socket);
  }
  if (!impostor.empty()) return lost(Reach::Barred, socket + ": " + impostor);
  std::string reply;
  (void)send_all(fd.get(), line, deadline);  // a busy daemon answers without reading it
  if (!receive_line(fd.get(), reply, deadline))
    return lost(Reach::Silent,
                "the daemon gave no answer within " + format_duration(limit) + " on " + socket);
  auto response = from_json_text<wire::Response>(reply, socket, {.bytes = kMaxLine});
  if (!response)
    return lost(Reach::Silent,
                "the daemon's answer is not understood: " + response.error().message());
  if (response->data.is_object() && response->data.value("busy", Json()) == true)
    return lost(Reach::Busy, response->message);
  return {Reach::Answered, *std::move(response), {}};
}

}  // namespace

Answer ask_daemon(const std::string& state, const wire::Request& request, Duration limit) {
  const Instant deadline = monotonic_now() + limit;
  const std::string line = to_json_text(request) + "\n";
  if (line.size() > kMaxLine) return lost(Reach::Barred, "the request is larger than 1 MiB");
  for (;;) {
    Answer answer = ask_once(state, line, deadline, limit);
    if (answer.reach != Reach::Busy || monotonic_now() + kAskAgain > deadline) return answer;
    std::this_thread::sleep_for(kAskAgain);
  }
}

Reach daemon_reach(const std::string& state, std::string* trouble) {
  wire::Request ping;
  ping.verb = "ping";
  const Answer answer = ask_daemon(state, ping, kPingLimit);
  const auto& data = answer.response.data;
  if (answer.reach != Reach::Answered || !data.is_object() || !data.contains("trouble") ||
      !data["trouble"].is_string() || data["trouble"].get<std::string>().empty())
    return answer.reach;
  if (trouble != nullptr) *trouble = data["trouble"].get<std::string>();
  return Reach::Stuck;
}

}  // namespace stoker::cli
