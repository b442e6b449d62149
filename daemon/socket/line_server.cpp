// LineServer: callbacks on one loop; every connection has one timer over its whole life.
#include "daemon/socket/line_server.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include "common/os/fd.hpp"

namespace stoker::daemon {
namespace {

namespace asio = boost::asio;
using Socket = asio::local::stream_protocol::socket;
using Code = boost::system::error_code;

}  // namespace

class LineServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Socket socket, LineServer& server, std::shared_ptr<std::size_t> open)
      : socket_(std::move(socket)),
        timer_(socket_.get_executor()),
        handler_(server.handler_),
        limits_(server.limits_),
        open_(std::move(open)) {
    ++*open_;
  }
  ~Connection() { --*open_; }

  void start() {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (::getsockopt(socket_.native_handle(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
      return;
    peer_ = {credentials.uid, credentials.gid, credentials.pid};
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
          self->line_.append(self->buffer_, size);
          const auto end = self->line_.find('\n');
          if (end == std::string::npos && self->line_.size() <= self->limits_.line)
            return self->read();
          if (end == std::string::npos || end > self->limits_.line) return self->close();
          self->line_.resize(end);
          self->handle();
        });
  }

  void handle() {
    handler_(peer_, std::move(line_), [self = shared_from_this()](std::string reply) {
      self->reply_ = std::move(reply) + "\n";
      asio::async_write(self->socket_, asio::buffer(self->reply_),
                        [self](Code, std::size_t) { self->close(); });
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
  std::shared_ptr<std::size_t> open_;
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
  const mode_t before = ::umask(0117);  // 0660 from the first moment on
  const int bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int error = errno;
  ::umask(before);
  if (bound != 0) return fail(errno_error(error, "cannot bind the control socket", path));
  if (gid != static_cast<gid_t>(-1) &&
      ::fchownat(folder.get(), name.c_str(), static_cast<uid_t>(-1), gid, 0) != 0)
    return fail(errno_error(errno, "cannot give the socket to the run's group", path));
  if (::listen(fd.get(), 64) != 0) return fail(errno_error(errno, "cannot listen", path));
  Code code;
  acceptor_.assign(asio::local::stream_protocol(), fd.release(), code);
  if (code) return fail(code.message(), path);
  path_ = path;
  accept();
  return ok();
}

Status LineServer::give_to(gid_t gid) {
  if (::chown(path_.c_str(), static_cast<uid_t>(-1), gid) != 0)
    return fail(errno_error(errno, "cannot give the control socket to the run's group", path_));
  return ok();
}

void LineServer::accept() {
  acceptor_.async_accept([this](Code code, Socket socket) {
    if (code == asio::error::operation_aborted || !acceptor_.is_open()) return;
    if (code) {  // out of descriptors: not at once again
      pause_.expires_after(std::chrono::milliseconds(100));
      return pause_.async_wait([this](Code stopped) {
        if (!stopped) accept();
      });
    }
    if (*open_ < limits_.connections)
      std::make_shared<Connection>(std::move(socket), *this, open_)->start();
    accept();
  });
}

void LineServer::close() {
  Code ignored;
  acceptor_.close(ignored);
  if (!path_.empty()) ::unlink(std::exchange(path_, {}).c_str());
}

}  // namespace stoker::daemon
