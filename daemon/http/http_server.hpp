// HttpServer: the read-only door: GET and HEAD, one answer a connection. 8 KiB of headers, no body,
// 5 s a connection, 32 connections: while they are taken the oldest that has sent nothing makes
// room, else the oldest, so that peers which say nothing starve no other client. TCP beyond
// loopback wants TLS. A request's Host must be an address, localhost or this host: a page of
// another name must not read it through a browser. TCP wants the token (`Authorization: Bearer …`,
// `?token=…`, or the cookie that /login?token=… sets): loopback is open to every user of a login
// node; a unix socket has its file mode. Every answer that is 200 carries an ETag; one that the
// client has already is 304.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <variant>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/result.hpp"
#include "common/time.hpp"
#include "daemon/http/pages.hpp"
#include "daemon/http/peer_shares.hpp"
#include "daemon/http/tls.hpp"
#include "daemon/socket/socket_file.hpp"

namespace stoker::daemon {

struct HttpLimits {
  std::uint32_t header = 8192;
  Duration connection = 5s;
  std::size_t connections = 32;
  Duration fair = 250ms;   // while all are taken, one that is older makes room for the next
  Duration silent = 10ms;  // or one that has sent nothing for so long
  bool insecure = false;   // also beyond loopback, where the token travels in clear text
  unsigned socket_mode = 0660;
  std::shared_ptr<Tls> tls;  // of TCP; none: clear text
  // Of one peer: handshakes a second, and connections at once, on a unix socket too. Our own user
  // and root, where the kernel says that it is they, have no limit.
  double peer_handshakes = 25;
  std::size_t peer_connections = 16;
  double handshakes = 50;   // a second, of all others together
  bool own_is_free = true;  // tests: no
};

class HttpServer {
 public:
  using Reply = std::function<void(Page)>;
  // Calls `reply` once, at once or later, on the loop's thread.
  using Render = std::function<void(const WebRequest& request, Reply reply)>;
  HttpServer(boost::asio::io_context& io, Render render, HttpLimits limits = {});
  ~HttpServer();

  // "127.0.0.1:9470", "[::1]:9470", or the path of a unix socket (it has a '/'). Port 0: any.
  // `token` is wanted on TCP.
  Status listen(const std::string& address, std::string token);
  // After that failed: another user has the port or the path, or one that was not found. It may be
  // free later.
  [[nodiscard]] bool is_anothers() const { return is_anothers_; }
  [[nodiscard]] std::uint16_t port() const;   // 0 on a unix socket
  [[nodiscard]] std::string address() const;  // where it listens, with the real port
  void close();

 private:
  class Connection;
  Status listen_unix(const std::string& path);
  Status listen_tcp(const std::string& address);
  void accept();
  void accept_after(Duration pause);
  bool make_room();
  bool has_share(const PagePeer& peer);
  bool may_shake_hands(const PagePeer& peer);

  boost::asio::io_context& io_;
  boost::asio::steady_timer pause_;
  Render render_;
  HttpLimits limits_;
  std::string token_;
  SocketFile file_;
  bool is_anothers_ = false;
  SessionCookie cookie_;
  std::variant<std::monostate, boost::asio::ip::tcp::acceptor,
               boost::asio::local::stream_protocol::acceptor>
      acceptor_;
  std::list<std::weak_ptr<Connection>> connections_;  // oldest first
  std::size_t refused_ = 0;
  HandshakeBudgets handshakes_;
};

// <state>/http-token, 0600, made once: 32 hex digits from the kernel.
Result<std::string> http_token(const std::string& path);

}  // namespace stoker::daemon
