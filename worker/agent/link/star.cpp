// Sockets of the star.
#include "worker/agent/link/star.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "common/os/own_files.hpp"
#include "common/os/random.hpp"
#include "wire/lineage.hpp"

namespace stoker::agent {
namespace {

constexpr const char* kLeadAddress = "/agents/lead.json";
constexpr std::size_t kLogQueue = 8u << 20;     // beyond it log frames are dropped
constexpr std::size_t kQueueLimit = 64u << 20;  // beyond it the other side is taken for dead

void no_delay(int fd) {
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
}

}  // namespace

std::string lead_address_path(const std::string& generation_directory) {
  return generation_directory + kLeadAddress;
}

Result<LeadAddress> read_lead_address(const std::string& run_directory, Generation generation) {
  const std::string name = wire::generation_name(generation) + kLeadAddress;
  STOKER_TRY(text, os::read_own_file(run_directory, name, 65536));
  return from_json_text<LeadAddress>(text, run_directory + "/" + name);
}

std::string random_secret() {
  std::string text;
  for (const char byte : os::random_bytes(32))
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

Link::Link(Loop& loop, os::Fd socket, Events events, std::size_t frame_limit)
    : loop_(loop),
      socket_(std::move(socket)),
      events_(std::make_shared<const Events>(std::move(events))),
      reader_(frame_limit),
      heard_at_(monotonic_now()) {
  no_delay(socket_.get());
  loop_.watch(socket_.get(), POLLIN, [this](short ready) { on_ready(ready); });
}

Link::~Link() {
  if (socket_) loop_.forget(socket_.get());
}

void Link::break_off(const Broken& broken) {
  if (broken_) return;
  broken_ = true;
  loop_.forget(socket_.get());
  socket_.reset();
  loop_.post(
      [events = events_, broken] { events->broken(broken); });  // the owner may destroy us there
}

void Link::secure(Seals seals) {
  seals_ = std::move(seals);
  reader_.set_limit(kFrameLimit);
}

void Link::replace_events(Events events) {
  events_ = std::make_shared<const Events>(std::move(events));
}

void Link::on_ready(short events) {
  if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) read_some();
  if (!broken_ && (events & POLLOUT) != 0) write_some();
}

void Link::read_some() {
  char buffer[1 << 16];
  const std::size_t most = seals_ ? sizeof buffer : kHelloLimit;  // little of who is not known
  const ssize_t n = ::recv(socket_.get(), buffer, most, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0)
    return break_off({n == 0 ? "connection closed" : errno_error(errno, "read", "").message()});
  heard_at_ = monotonic_now();
  if (const auto fed = reader_.feed({buffer, static_cast<std::size_t>(n)}); !fed)
    return break_off({fed.error().message(), true});
  while (!broken_) {
    auto frame = reader_.next();
    if (!frame) return;
    if (seals_ && !seals_->in.open(*frame)) return break_off({"a frame with a wrong MAC"});
    const auto events = events_;  // the callback may replace them
    events->frame(*frame);
  }
}

void Link::send(char kind, std::string_view content) {
  if (broken_) return;
  const std::size_t queued = out_.size() - out_begin_;
  if (kind == 'l' && queued + content.size() > kLogQueue) {
    ++dropped_;
    return;
  }
  if (queued > kQueueLimit) return break_off({"it does not read"});
  out_ += encode_frame(kind, content, seals_ ? seals_->out.close(kind, content) : std::string());
  write_some();
}

void Link::write_some() {
  while (out_begin_ < out_.size()) {
    const ssize_t n = ::send(socket_.get(), out_.data() + out_begin_, out_.size() - out_begin_,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) return break_off({errno_error(errno, "write", "").message()});
    out_begin_ += static_cast<std::size_t>(n);
  }
  if (out_begin_ == out_.size() || out_begin_ > (1u << 20)) {
    out_.erase(0, out_begin_);
    out_begin_ = 0;
  }
  const bool more = !out_.empty();
  loop_.change(socket_.get(), static_cast<short>(more ? POLLIN | POLLOUT : POLLIN));
}

Result<Listener> listen_tcp(const std::string& address) {
  Listener listener;
  listener.socket = os::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  socklen_t size = sizeof at;
  auto* raw = reinterpret_cast<sockaddr*>(&at);
  const bool parsed = ::inet_pton(AF_INET, address.c_str(), &at.sin_addr) == 1;
  bool bound = listener.socket && parsed && ::bind(listener.socket.get(), raw, size) == 0;
  if (listener.socket && (!parsed || (!bound && errno == EADDRNOTAVAIL))) {
    listener.note = fmt::format(
        "this host does not have the address {}: the agents' port is open on all its addresses",
        address);
    at.sin_addr.s_addr = htonl(INADDR_ANY);
    bound = ::bind(listener.socket.get(), raw, size) == 0;
  }
  if (!bound || ::listen(listener.socket.get(), 4096) != 0 ||
      ::getsockname(listener.socket.get(), raw, &size) != 0)
    return fail(errno_error(errno, "cannot listen for the other agents", address));
  listener.port = ntohs(at.sin_port);
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

namespace {

bool wait_for(int fd, short events, Instant end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - monotonic_now()).count();
  pollfd p{fd, events, 0};
  return left > 0 && ::poll(&p, 1, static_cast<int>(left)) > 0;
}

Status send_all(int fd, std::string_view bytes, Instant end) {
  while (!bytes.empty()) {
    if (!wait_for(fd, POLLOUT, end)) return fail("it does not read");
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return fail(errno_error(errno, "write", ""));
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return ok();
}

// One frame and not a byte more: what follows is the link's.
Result<Frame> receive_frame(int fd, Instant end) {
  FrameReader reader(kHelloLimit);
  while (true) {
    if (!wait_for(fd, POLLIN, end)) return fail("no answer");
    char byte = 0;
    const ssize_t n = ::recv(fd, &byte, 1, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return fail(errno_error(errno, "read", ""));
    if (n == 0)
      return fail("closed the connection before the lead was proven", "",
                  "the lead's notices say whom it has refused, and why: stoker events");
    STOKER_TRY_STATUS(reader.feed({&byte, 1}));
    if (auto frame = reader.next()) return *frame;
  }
}

}  // namespace

Result<SessionKeys> knock(const os::Fd& socket, FollowerHandshake handshake, Duration limit) {
  const Instant end = monotonic_now() + limit;
  no_delay(socket.get());
  STOKER_TRY_STATUS(send_all(socket.get(), encode_frame('h', handshake.knock()), end));
  STOKER_TRY(challenge, receive_frame(socket.get(), end));
  STOKER_TRY(answer, handshake.take(challenge));
  STOKER_TRY_STATUS(send_all(socket.get(), encode_frame('h', answer), end));
  return handshake.keys();
}

}  // namespace stoker::agent
