// LineServer: the transport of the control socket. One JSON line in, one out, then the connection
// closes; 1 MiB a line, 5 s a connection, 32 connections. Who asks is told by the kernel
// (SO_PEERCRED). Runs on the loop; the handler may answer later.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/result.hpp"
#include "common/time.hpp"

namespace stoker::daemon {

struct Peer {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;
};

struct LineLimits {
  std::size_t line = 1u << 20;
  Duration connection = 5s;
  std::size_t connections = 32;
};

class LineServer {
 public:
  using Answer = std::function<void(std::string line)>;  // at most once; may outlive the connection
  using Handler = std::function<void(const Peer&, std::string line, Answer)>;

  LineServer(boost::asio::io_context& io, Handler handler, LineLimits limits = {});
  ~LineServer();
  // Binds <directory>/<name> (however long the path is), 0660, group `gid` unless it is -1. A
  // socket file that a killed daemon left is replaced; call only while the directory is possessed.
  Status listen(const std::string& directory, const std::string& name, gid_t gid);
  // Gives the socket's file to another group. Error: not ours to give.
  Status give_to(gid_t gid);
  void close();
  [[nodiscard]] std::size_t open_connections() const { return *open_; }

 private:
  class Connection;
  void accept();

  boost::asio::io_context& io_;
  boost::asio::local::stream_protocol::acceptor acceptor_;
  Handler handler_;
  LineLimits limits_;
  std::shared_ptr<std::size_t> open_ = std::make_shared<std::size_t>(0);
  boost::asio::steady_timer pause_;
  std::string path_;
};

}  // namespace stoker::daemon
