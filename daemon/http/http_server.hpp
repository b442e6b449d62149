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
#include "daemon/http/tls.hpp"

namespace stoker::daemon {

struct HttpLimits {
  std::uint32_t header = 8192;
  Duration connection = 5s;
  std::size_t connections = 32;
  Duration fair = 250ms;   // while all are taken, one that is older makes room for the next
  Duration silent = 10ms;  // or one that has sent nothing for so long
  bool insecure = false;   // also beyond loopback, where the token travels in clear text
  unsigned socket_mode = 0660;
  std::shared_ptr<Tls> tls;     // of TCP; none: clear text
  std::size_t handshakes = 50;  // a second
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
  bool may_shake_hands();

  boost::asio::io_context& io_;
  boost::asio::steady_timer pause_;
  Render render_;
  HttpLimits limits_;
  std::string token_, unix_path_;
  SessionCookie cookie_;
  std::variant<std::monostate, boost::asio::ip::tcp::acceptor,
               boost::asio::local::stream_protocol::acceptor>
      acceptor_;
  std::list<std::weak_ptr<Connection>> connections_;  // oldest first
  Instant second_;                                    // that `handshakes_` began in
  std::size_t handshakes_ = 0;
};

// <state>/http-token, 0600, made once: 32 hex digits from the kernel.
Result<std::string> http_token(const std::string& path);

}  // namespace stoker::daemon
