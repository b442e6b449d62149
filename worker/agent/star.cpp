// Sockets of the star.
#include "worker/agent/star.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <random>
#include <sys/socket.h>

namespace stoker::agent {
namespace {

constexpr std::size_t kLogQueue = 8u << 20;     // beyond it log frames are dropped
constexpr std::size_t kQueueLimit = 64u << 20;  // beyond it the other side is taken for dead

void no_delay(int fd) {
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
}

}  // namespace

std::string lead_address_path(const std::string& generation_directory) {
  return generation_directory + "/agents/lead.json";
}

std::string random_secret() {
  std::random_device random;
  std::string text;
  for (int i = 0; i < 8; ++i) text += fmt::format("{:08x}", random());
  return text;
}

Link::Link(Loop& loop, os::Fd socket, Events events)
    : loop_(loop),
      socket_(std::move(socket)),
      events_(std::move(events)),
      heard_at_(monotonic_now()) {
  no_delay(socket_.get());
  loop_.watch(socket_.get(), POLLIN, [this](short ready) { on_ready(ready); });
}

Link::~Link() {
  if (socket_) loop_.forget(socket_.get());
}

void Link::break_off(const std::string& why) {
  if (broken_) return;
  broken_ = true;
  loop_.forget(socket_.get());
  socket_.reset();
  loop_.post([broken = events_.broken, why] { broken(why); });  // the owner may destroy us there
}

void Link::on_ready(short events) {
  if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) read_some();
  if (!broken_ && (events & POLLOUT) != 0) write_some();
}

void Link::read_some() {
  char buffer[1 << 16];
  const ssize_t n = ::recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0)
    return break_off(n == 0 ? "connection closed" : errno_error(errno, "read", "").message());
  heard_at_ = monotonic_now();
  if (const auto fed = reader_.feed({buffer, static_cast<std::size_t>(n)}); !fed)
    return break_off(fed.error().message());
  while (!broken_) {
    const auto frame = reader_.next();
    if (!frame) return;
    events_.frame(*frame);
  }
}

void Link::send(char kind, std::string_view content) {
  if (broken_) return;
  const std::size_t queued = out_.size() - out_begin_;
  if (kind == 'l' && queued + content.size() > kLogQueue) {
    ++dropped_;
    return;
  }
  if (queued > kQueueLimit) return break_off("it does not read");
  out_ += encode_frame(kind, content);
  write_some();
}

void Link::write_some() {
  while (out_begin_ < out_.size()) {
    const ssize_t n = ::send(socket_.get(), out_.data() + out_begin_, out_.size() - out_begin_,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) return break_off(errno_error(errno, "write", "").message());
    out_begin_ += static_cast<std::size_t>(n);
  }
  if (out_begin_ == out_.size() || out_begin_ > (1u << 20)) {
    out_.erase(0, out_begin_);
    out_begin_ = 0;
  }
  const bool more = !out_.empty();
  loop_.change(socket_.get(), static_cast<short>(more ? POLLIN | POLLOUT : POLLIN));
}

Result<Listener> listen_tcp(bool loopback_only) {
  Listener listener;
  listener.socket = os::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(loopback_only ? INADDR_LOOPBACK : INADDR_ANY);
  socklen_t size = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (!listener.socket || ::bind(listener.socket.get(), raw, size) != 0 ||
      ::listen(listener.socket.get(), 4096) != 0 ||
      ::getsockname(listener.socket.get(), raw, &size) != 0)
    return fail(errno_error(errno, "cannot listen for the other agents", ""));
  listener.port = ntohs(address.sin_port);
  return listener;
}

Result<os::Fd> accept_link(const os::Fd& listener) {
  os::Fd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) return fail(errno_error(errno, "cannot accept", ""));
  return fd;
}

Result<os::Fd> connect_tcp(const std::string& address, std::uint32_t port, Duration limit) {
  const std::string object = fmt::format("{}:{}", address, port);
  os::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1)
    return fail("is no IPv4 address", object);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
    if (errno != EINPROGRESS) return fail(errno_error(errno, "cannot connect", object));
    pollfd p{fd.get(), POLLOUT, 0};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
    if (::poll(&p, 1, static_cast<int>(ms)) != 1) return fail("no answer", object);
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return fail(errno_error(error, "cannot connect", object));
  }
  return fd;
}

}  // namespace stoker::agent
