#include "embedded/socket.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "common/os/permissions.hpp"
#include "embedded/requests.hpp"

namespace stoker::embedded {
namespace {

constexpr std::size_t kMaxConnections = 32;
constexpr Duration kRequestLimit = 5s;
constexpr const char* kSocketName = "scheduler.sock";

Result<os::Fd> open_folder(const std::string& folder, bool root_may = false) {
  os::Fd fd(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail(errno_error(errno, "cannot open", folder));
  const bool any = root_may && ::geteuid() == 0;
  if (!any) STOKER_TRY_STATUS(os::check_own(fd.get(), folder));
  return fd;
}

sockaddr_un address_in(const os::Fd& folder) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("/proc/self/fd/{}/{}", folder.get(), kSocketName);
  std::memcpy(address.sun_path, path.c_str(), std::min(path.size(), sizeof address.sun_path - 1));
  return address;
}

bool wait_for(int fd, short events, Instant end) {
  const Duration left = end - monotonic_now();
  if (left <= 0s) return false;
  pollfd p{fd, events, 0};
  return ::poll(&p, 1, static_cast<int>(left / 1ms) + 1) > 0;
}

}  // namespace

Status make_folder(const std::string& folder) {
  STOKER_TRY_STATUS(os::make_directories(folder, 0700));
  const auto made = open_folder(folder);
  return made ? ok() : fail(made.error());
}

Result<os::Fd> connect_socket(const std::string& folder) {
  STOKER_TRY(directory, open_folder(folder, true));  // an operator asks a user's scheduler
  os::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail(errno_error(errno, "cannot create a socket", folder));
  const sockaddr_un address = address_in(directory);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail(errno_error(errno, "cannot reach the local scheduler", folder));
  return fd;
}

Exchange exchange(const os::Fd& socket, const std::string& line, std::size_t answer_limit,
                  Duration deadline) {
  Exchange result;
  const Instant end = monotonic_now() + deadline;
  const auto timed_out = [&result] {
    result.answer = fail("the local scheduler does not answer in time");
    return result;
  };
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t n = ::send(socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      if (!wait_for(socket.get(), POLLOUT, end)) return timed_out();
    } else if (errno != EINTR) {
      result.answer = fail(errno_error(errno, "cannot send to the local scheduler", ""));
      return result;
    }
  }
  result.sent = true;
  std::string answer;
  char buffer[65536];
  while (answer.empty() || answer.back() != '\n') {
    if (answer.size() > answer_limit) {
      result.answer = fail("the local scheduler's answer is too long");
      return result;
    }
    const ssize_t n = ::recv(socket.get(), buffer, sizeof buffer, 0);
    if (n > 0) {
      answer.append(buffer, static_cast<std::size_t>(n));
    } else if (n < 0 && errno == EAGAIN) {
      if (!wait_for(socket.get(), POLLIN, end)) return timed_out();
    } else if (n == 0 || errno != EINTR) {
      result.left = true;
      result.answer = fail("the local scheduler left without an answer");
      return result;
    }
  }
  result.answer = answer;
  return result;
}

Result<SocketServer> SocketServer::listen(const std::string& folder) {
  STOKER_TRY(directory, open_folder(folder));
  SocketServer server;
  server.listener_ = os::Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = address_in(directory);
  ::unlink(address.sun_path);  // of a process that was killed: we hold the lock
  const auto bind = [&] {
    const os::UmaskFor mask(0177);
    return ::bind(server.listener_.get(), reinterpret_cast<const sockaddr*>(&address),
                  sizeof address);
  };
  if (bind() != 0 || ::listen(server.listener_.get(), 16) != 0)
    return fail(errno_error(errno, "cannot listen", folder + "/" + kSocketName));
  return server;
}

void SocketServer::accept_one() {
  while (true) {
    os::Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) continue;
    if (peer.uid != ::getuid() && peer.uid != 0) continue;
    if (connections_.size() >= kMaxConnections) continue;
    Connection c;
    c.fd = std::move(fd);
    c.uid = peer.uid;
    c.since = monotonic_now();
    connections_.push_back(std::move(c));
  }
}

// False: the connection is over.
bool SocketServer::progress(
    Connection& c, const std::function<std::string(const std::string&, std::uint32_t)>& handle) {
  char buffer[65536];
  while (!c.answered) {
    const ssize_t n = ::recv(c.fd.get(), buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return monotonic_now() - c.since < kRequestLimit;
    if (n <= 0) return false;
    c.in.append(buffer, static_cast<std::size_t>(n));
    if (c.in.size() > kMaxRequestBytes) return false;
    if (c.in.back() != '\n') continue;
    c.out = handle(c.in, c.uid);
    c.answered = true;
  }
  while (!c.out.empty()) {
    const ssize_t n = ::send(c.fd.get(), c.out.data(), c.out.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return monotonic_now() - c.since < kRequestLimit;
    if (n <= 0) return false;
    c.out.erase(0, static_cast<std::size_t>(n));
  }
  return false;
}

bool SocketServer::serve(
    Duration timeout, const std::vector<int>& extra,
    const std::function<std::string(const std::string&, std::uint32_t)>& handle) {
  std::vector<pollfd> fds{{listener_.get(), POLLIN, 0}};
  for (const auto& c : connections_)
    fds.push_back({c.fd.get(), static_cast<short>(c.answered ? POLLOUT : POLLIN), 0});
  for (const int fd : extra) fds.push_back({fd, POLLIN, 0});
  if (!connections_.empty()) timeout = std::min<Duration>(timeout, 1s);
  ::poll(fds.data(), fds.size(), static_cast<int>(timeout / 1ms) + 1);
  accept_one();
  const bool traffic = !connections_.empty();
  std::erase_if(connections_, [&](Connection& c) { return !progress(c, handle); });
  return traffic;
}

}  // namespace stoker::embedded
