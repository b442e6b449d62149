// LineServer: callbacks on one loop; every connection has one timer over its whole life.
#include "daemon/socket/line_server.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include "common/os/fd.hpp"
#include "common/os/permissions.hpp"

namespace stoker::daemon {
namespace {

namespace asio = boost::asio;
using Socket = asio::local::stream_protocol::socket;
using Code = boost::system::error_code;

constexpr Duration kOutOfDescriptors = 100ms;

bool is_owner(const Peer& peer) {
  return peer.uid == ::geteuid() || peer.uid == 0;
}

std::optional<Peer> peer_of(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
  return Peer{credentials.uid, credentials.gid, credentials.pid};
}

void say_busy(int socket) {
  const std::string line = std::string(kBusyLine) + "\n";
  [[maybe_unused]] const ssize_t sent =
      ::send(socket, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

class LineServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Socket socket, const Peer& peer, LineServer& server)
      : socket_(std::move(socket)),
        timer_(socket_.get_executor()),
        handler_(server.handler_),
        limits_(server.limits_),
        open_(server.open_),
        peer_(peer) {
    ++open_->all;
    if (is_owner(peer_)) return;
    ++open_->others;
    ++open_->of[peer_.uid];
  }
  ~Connection() {
    --open_->all;
    if (is_owner(peer_)) return;
    --open_->others;
    if (--open_->of[peer_.uid] == 0) open_->of.erase(peer_.uid);
  }

  void start() {
    timer_.expires_after(limits_.connection);
    timer_.async_wait([self = shared_from_this()](Code code) {
      if (!code) self->close();
    });
    read();
  }

 private:
  void read() {
    socket_.async_read_some(
        asio::buffer(buffer_), [self = shared_from_this()](Code code, std::size_t size) {
          if (code) return self->close();
          const std::size_t before = self->line_.size();
          self->line_.append(self->buffer_, size);
          const auto end = self->line_.find('\n', before);
          const bool owner = is_owner(self->peer_);
          const std::size_t most = owner ? self->limits_.line : self->limits_.others_line;
          if (end == std::string::npos && self->line_.size() <= most) return self->read();
          if (end == std::string::npos || end > most)
            return owner ? self->close() : self->turn_away();
          self->line_.resize(end);
          self->handle();
        });
  }

  void handle() {
    handler_(peer_, std::move(line_),
             [self = shared_from_this()](std::string reply) { self->answer(std::move(reply)); });
  }

  void answer(std::string reply) {
    reply_ = std::move(reply) + "\n";
    asio::async_write(socket_, asio::buffer(reply_),
                      [self = shared_from_this()](Code, std::size_t) { self->close(); });
  }

  // Late: who sends such lines without end gets few answers.
  void turn_away() {
    timer_.expires_after(limits_.long_line_pause);
    timer_.async_wait([self = shared_from_this()](Code code) {
      if (!code) self->answer(kLongLine);
    });
  }

  void close() {
    Code ignored;
    timer_.cancel(ignored);
    socket_.close(ignored);
  }

  Socket socket_;
  asio::steady_timer timer_;
  Handler handler_;
  LineLimits limits_;
  std::shared_ptr<Open> open_;
  Peer peer_;
  char buffer_[4096];
  std::string line_, reply_;
};

LineServer::LineServer(asio::io_context& io, Handler handler, LineLimits limits)
    : io_(io), acceptor_(io), handler_(std::move(handler)), limits_(limits), pause_(io) {}

LineServer::~LineServer() {
  close();
}

Status LineServer::listen(const std::string& directory, const std::string& name, gid_t gid) {
  const std::string path = directory + "/" + name;
  const os::Fd folder(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return fail(errno_error(errno, "cannot open", directory));
  os::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string reachable = "/proc/self/fd/" + std::to_string(folder.get()) + "/" + name;
  if (!fd || reachable.size() >= sizeof address.sun_path) return fail("cannot make a socket", path);
  std::memcpy(address.sun_path, reachable.c_str(), reachable.size() + 1);
  ::unlinkat(folder.get(), name.c_str(), 0);
  const auto bind = [&] {
    const os::UmaskFor mask(0117);  // 0660 from the first moment on
    return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  };
  if (bind() != 0) return fail(errno_error(errno, "cannot bind the control socket", path));
  if (gid != static_cast<gid_t>(-1) &&
      ::fchownat(folder.get(), name.c_str(), static_cast<uid_t>(-1), gid, 0) != 0)
    return fail(errno_error(errno, "cannot give the socket to the run's group", path));
  if (::listen(fd.get(), 64) != 0) return fail(errno_error(errno, "cannot listen", path));
  struct stat info {};
  if (::fstatat(folder.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
    return fail(errno_error(errno, "cannot look at the control socket", path));
  Code code;
  acceptor_.close(code);
  acceptor_.assign(asio::local::stream_protocol(), fd.release(), code);
  if (code) return fail(code.message(), path);
  file_ = {path, info.st_dev, info.st_ino};
  accept();
  return ok();
}

Status LineServer::give_to(gid_t gid) {
  if (::chown(file_.path.c_str(), static_cast<uid_t>(-1), gid) != 0)
    return fail(
        errno_error(errno, "cannot give the control socket to the run's group", file_.path));
  return ok();
}

void LineServer::accept() {
  acceptor_.async_accept([this](Code code, Socket socket) {
    if (code == asio::error::operation_aborted || !acceptor_.is_open()) return;
    if (code) return accept_after(kOutOfDescriptors);
    const auto peer = peer_of(socket.native_handle());
    if (!peer) return accept();
    if (!has_room_for(*peer)) {
      say_busy(socket.native_handle());
      return accept_after(limits_.refusal_pause);
    }
    std::make_shared<Connection>(std::move(socket), *peer, *this)->start();
    accept();
  });
}

bool LineServer::has_room_for(const Peer& peer) const {
  if (open_->all >= limits_.connections) return false;
  if (is_owner(peer)) return true;
  const auto theirs = open_->of.find(peer.uid);
  const std::size_t count = theirs == open_->of.end() ? 0 : theirs->second;
  return count < std::max<std::size_t>(1, limits_.connections / 4) &&
         open_->others < limits_.connections - limits_.connections / 4;
}

void LineServer::accept_after(Duration pause) {
  pause_.expires_after(pause);
  pause_.async_wait([this](Code stopped) {
    if (!stopped) accept();
  });
}

void LineServer::close() {
  Code ignored;
  acceptor_.close(ignored);
  if (const SocketFile file = std::exchange(file_, {}); file.in_place())
    ::unlink(file.path.c_str());
}

}  // namespace stoker::daemon
