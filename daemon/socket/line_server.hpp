// LineServer: the transport of the control socket. One JSON line in, one out, then the connection
// closes; 1 MiB a line, 5 s a connection, 32 connections. The kernel identifies the client
// (SO_PEERCRED). A line of another user has at most 16 KiB: the rest of a longer one is not read.
// Another user than our own (or root) has at most a quarter of the connections, and
// all others together three quarters: a client that fills them does not lock the owner out. A
// surplus connection gets `kBusyLine` and is closed. Runs on the loop; the handler may answer
// later.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/result.hpp"
#include "common/time.hpp"
#include "daemon/socket/socket_file.hpp"

namespace stoker::daemon {

struct Peer {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;
};

inline constexpr std::size_t kOthersLine = 16u << 10;

struct LineLimits {
  std::size_t line = 1u << 20;
  Duration connection = 5s;
  std::size_t connections = 32;
  Duration refusal_pause = 2ms;  // after a surplus connection, so that they cost little
  std::size_t others_line = kOthersLine;
  Duration long_line_pause = 1s;  // before the answer to a line of another that is too long
};

// Answered without reading the request: nothing was done, it can be sent again.
inline constexpr const char* kBusyLine =
    R"({"version":1,"ok":false,"message":"stokerd has too many connections","data":{"busy":true}})";

// Answered to another user after the first 16 KiB.
inline constexpr const char* kLongLine =
    R"({"version":1,"ok":false,"message":"the request has more than 16384 bytes, the most that )"
    R"(stokerd takes of other users than its own: give a shorter reason","data":null})";

class LineServer {
 public:
  using Answer = std::function<void(std::string line)>;  // at most once; may outlive the connection
  using Handler = std::function<void(const Peer&, std::string line, Answer)>;

  LineServer(boost::asio::io_context& io, Handler handler, LineLimits limits = {});
  ~LineServer();
  // Binds <directory>/<name> (however long the path is), 0660, group `gid` unless it is -1. A
  // socket file that a killed daemon left is replaced; call only while the directory is possessed.
  // Again: where file() is not in place any more.
  Status listen(const std::string& directory, const std::string& name, gid_t gid);
  // Gives the socket's file to another group. Error: not ours to give.
  Status give_to(gid_t gid);
  void close();  // removes the file, if it is still ours
  [[nodiscard]] const SocketFile& file() const { return file_; }
  [[nodiscard]] std::size_t open_connections() const { return open_->all; }

 private:
  class Connection;
  struct Open {
    std::size_t all = 0, others = 0;
    std::map<uid_t, std::size_t> of;  // other users
  };
  void accept();
  void accept_after(Duration pause);
  [[nodiscard]] bool has_room_for(const Peer& peer) const;

  boost::asio::io_context& io_;
  boost::asio::local::stream_protocol::acceptor acceptor_;
  Handler handler_;
  LineLimits limits_;
  std::shared_ptr<Open> open_ = std::make_shared<Open>();
  boost::asio::steady_timer pause_;
  SocketFile file_;
};

}  // namespace stoker::daemon
