// The unix socket of a cluster folder, both ends. One request and one answer a connection, each one
// line of JSON. Paths of any length work: the folder is reached through /proc/self/fd.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "common/time.hpp"

namespace stoker::embedded {

// Makes a cluster folder, closed to others. Refused, here and wherever it is opened: one of another
// user, or that others may write: what is in it says what is executed.
Status make_folder(const std::string& folder);

Result<os::Fd> connect_socket(const std::string& folder);

// Sends `line` and reads one line back. Errors before the last byte was sent say so in `sent`.
struct Exchange {
  bool sent = false;  // the other side may have acted
  bool left = false;  // it closed the connection without an answer: it was killed, or leaves
  Result<std::string> answer = fail("not asked");
};
Exchange exchange(const os::Fd& socket, const std::string& line, std::size_t answer_limit,
                  Duration deadline);

// Serves up to 32 connections without ever waiting for one; a client has 5 s for its request.
class SocketServer {
 public:
  static Result<SocketServer> listen(const std::string& folder);

  // Waits for traffic, for one of `extra` to become readable, or for `timeout`; answers what is
  // complete through `handle(line, uid of the client)`. True: there was traffic.
  bool serve(Duration timeout, const std::vector<int>& extra,
             const std::function<std::string(const std::string&, std::uint32_t)>& handle);

 private:
  struct Connection {
    os::Fd fd;
    std::uint32_t uid = 0;
    std::string in, out;
    Instant since;
    bool answered = false;
  };
  void accept_one();
  bool progress(Connection& c,
                const std::function<std::string(const std::string&, std::uint32_t)>& handle);

  os::Fd listener_;
  std::vector<Connection> connections_;
};

}  // namespace stoker::embedded
