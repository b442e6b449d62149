// HttpServer on Boost.Beast. Tokens and cookies are compared in constant time.
#include "daemon/http/http_server.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "common/os/files.hpp"
#include "common/os/listener.hpp"
#include "common/os/own_files.hpp"
#include "common/os/permissions.hpp"
#include "common/os/random.hpp"
#include "daemon/http/peer_stream.hpp"
#include "daemon/http/run_api.hpp"
#include "daemon/http/socket_path.hpp"

namespace stoker::daemon {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Code = boost::system::error_code;
using Stream = PeerStream::Socket;

constexpr Duration kOutOfDescriptors = 100ms, kLookAgain = 1ms;
constexpr int kBacklog = 64;  // a longer one is a queue of strangers before the next client
// Where peers have shares the queue is short in time: so many refusals in each kLookAgain.
constexpr int kBacklogOfShares = 4096;
constexpr std::size_t kRefusedAtOnce = 16;

std::string_view view(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

// What a browser on this host can have asked for only if the person meant this server: a foreign
// name that resolves to us is DNS rebinding. No Host: no browser.
// A name of our certificate is ours too: a browser has asked for proof. This host's name counts as
// it is set and by its first word: "<first word>.evil.example" is anybody's.
bool is_own_name(std::string_view host, Tls::Context* tls) {
  const bool bracketed = host.starts_with('[');  // an IPv6 address
  const auto end = bracketed ? host.find(']') : host.find(':');
  const std::string name(bracketed ? host.substr(1, end - 1) : host.substr(0, end));
  Code code;
  asio::ip::make_address(name, code);
  if (bracketed) return !code && (end + 1 == host.size() || host[end + 1] == ':');
  if (tls != nullptr && certificate_is_for(*tls, name)) return true;
  const std::string ours = os::host_name();
  return name.empty() || !code || name == "localhost" || name == ours ||
         name == ours.substr(0, ours.find('.'));
}

}  // namespace

class HttpServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Stream socket, const HttpServer& server, std::string of)
      : of_(std::move(of)),
        peer_(std::move(socket),
              server.limits_.tls ? server.limits_.tls->context(monotonic_now()) : nullptr),
        timer_(peer_.get_executor()),
        render_(server.render_),
        token_(server.token_),
        cookie_(server.cookie_),
        began_(monotonic_now()) {
    parser_.header_limit(server.limits_.header);
    parser_.body_limit(0);
    timer_.expires_after(server.limits_.connection);
  }

  [[nodiscard]] Instant began() const { return began_; }
  [[nodiscard]] const std::string& of() const { return of_; }
  // Nothing of a request has come. A TLS handshake takes its time: unknown; a peer has few of them.
  [[nodiscard]] bool is_silent() {
    return peer_.tls() == nullptr && buffer_.size() == 0 && peer_.unread_bytes() == 0;
  }
  void close() {
    Code ignored;
    timer_.cancel(ignored);
    peer_.close();
  }

  void start() {
    timer_.async_wait([self = shared_from_this()](Code code) {
      if (!code) self->close();
    });
    peer_.shake_hands([self = shared_from_this()](Code code) {
      if (code) return self->close();
      self->read();
    });
  }

 private:
  void read() {
    http::async_read(peer_, buffer_, parser_, [self = shared_from_this()](Code code, std::size_t) {
      if (code == http::error::header_limit)
        return self->reply({431, "text/plain", "headers above 8 KiB\n"});
      if (code == http::error::body_limit)
        return self->reply({413, "text/plain", "no body is taken\n"});
      if (code) return self->close();
      self->handle();
    });
  }

  void handle() {
    const auto& request = parser_.get();
    if (request.method() != http::verb::get && request.method() != http::verb::head)
      return reply({405, "text/plain", "this door is read-only\n"});
    if (!is_own_name(view(request[http::field::host]), peer_.tls()))
      return reply({421, "text/plain", "ask by address, as localhost or by this host's name\n"});
    auto parsed = parse_target(view(request.target()));
    if (!parsed) return reply(refuse(400, parsed.error()));
    parsed->accept = std::string(view(request[http::field::accept]));
    if (!token_.empty() && !is_known(*parsed))
      return reply(
          {401, "text/plain",
           "the token is in <state>/http-token; `stoker web` prints an address to open\n"});
    if (parsed->path == "/login" || (parsed->path == "/" && parsed->query.contains("token")))
      return welcome();
    // The answer may come later, but on this thread.
    render_(*parsed, [self = shared_from_this()](Page page) { self->reply(std::move(page)); });
  }

  [[nodiscard]] bool is_known(const WebRequest& request) const {
    const auto& header = parser_.get();
    std::string_view given = view(header[http::field::authorization]);
    if (given.starts_with("Bearer ")) given.remove_prefix(7);
    if (const auto token = request.query.find("token"); token != request.query.end())
      given = token->second;
    return same_secret(given, token_) ||
           same_secret(cookie_value(view(header[http::field::cookie]), cookie_.name),
                       cookie_.value);
  }

  // The token leaves the address line; the browser keeps a cookie that scripts cannot read.
  void welcome() {
    response_.set(http::field::location, "/");
    if (!token_.empty())
      response_.set(
          http::field::set_cookie,
          fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000{}", cookie_.name,
                      cookie_.value, peer_.tls() != nullptr ? "; Secure" : ""));
    reply({303, "text/plain", "go on at /\n"});
  }

  void secure(const Page& page) {
    response_.set(http::field::content_type, page.type);
    response_.set(http::field::cache_control,
                  page.status == 200 ? "private, no-cache" : "no-store");
    response_.set("X-Content-Type-Options", "nosniff");
    response_.set("Referrer-Policy", "no-referrer");
    response_.set("Cross-Origin-Resource-Policy", "same-origin");
    response_.set("Content-Security-Policy",
                  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                  "connect-src 'self'; base-uri 'none'; form-action 'none'; "
                  "frame-ancestors 'none'");
    if (page.status == 401) response_.set(http::field::www_authenticate, "Bearer");
    if (page.status == 405) response_.set(http::field::allow, "GET, HEAD");
  }

  void reply(Page page) {
    const auto& request = parser_.get();
    if (page.status == 200) {
      const std::string etag = etag_of(page.body);
      response_.set(http::field::etag, etag);
      if (etag_matches(view(request[http::field::if_none_match]), etag)) page.status = 304;
    }
    secure(page);
    response_.result(static_cast<unsigned>(page.status));
    response_.keep_alive(false);
    const bool head = parser_.is_header_done() && request.method() == http::verb::head;
    if (head || page.status == 304) page.body.clear();
    response_.body() = std::move(page.body);
    response_.prepare_payload();
    http::async_write(peer_, response_, [self = shared_from_this()](Code code, std::size_t) {
      if (code) return self->close();
      self->peer_.take_leave([self](Code) { self->close(); });
    });
  }

  std::string of_;
  PeerStream peer_;
  asio::steady_timer timer_;
  Render render_;
  std::string token_;
  SessionCookie cookie_;
  Instant began_;
  boost::beast::flat_buffer buffer_{16384};
  http::request_parser<http::empty_body> parser_;
  http::response<http::string_body> response_;
};

HttpServer::HttpServer(asio::io_context& io, Render render, HttpLimits limits)
    : io_(io), pause_(io), render_(std::move(render)), limits_(limits) {}

HttpServer::~HttpServer() {
  close();
}

Status HttpServer::listen_unix(const std::string& path) {
  is_anothers_ = is_of_another(path);
  STOKER_TRY_STATUS(clear_socket_path(path));
  Code code;
  asio::local::stream_protocol::acceptor acceptor(io_);
  acceptor.open();
  {
    const os::UmaskFor mask(0777 & ~(limits_.socket_mode & mode_in_its_folder(path)));
    acceptor.bind(asio::local::stream_protocol::endpoint(path), code);
  }
  if (code)
    return fail("cannot listen: " + code.message(), path, "name another path with --listen");
  acceptor.listen(kBacklogOfShares);
  acceptor_ = std::move(acceptor);
  file_ = socket_file(path);
  return ok();
}

Status HttpServer::listen_tcp(const std::string& address) {
  const auto colon = address.rfind(':');
  const auto no_address = [&] {
    return fail("not an address and port", address,
                "write 127.0.0.1:9470, or the path of a unix socket");
  };
  if (colon == std::string::npos) return no_address();
  std::uint16_t number = 0;
  const char* end = address.data() + address.size();
  const auto parsed = std::from_chars(address.data() + colon + 1, end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return no_address();
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  Code code;
  const auto ip = asio::ip::make_address(host, code);
  if (code) return no_address();
  if (!ip.is_loopback() && !limits_.tls && !limits_.insecure)
    return fail("refused: beyond loopback the token and all pages travel in clear text", address,
                "give --tls-cert and --tls-key, or listen on 127.0.0.1 and use an ssh tunnel, or "
                "on a unix socket; --insecure listens there nevertheless");
  try {
    auto& acceptor = acceptor_.emplace<asio::ip::tcp::acceptor>(io_);
    acceptor.open(ip.is_v6() ? asio::ip::tcp::v6() : asio::ip::tcp::v4());
    acceptor.set_option(asio::socket_base::reuse_address(true));
    acceptor.bind(asio::ip::tcp::endpoint(ip, number));
    acceptor.listen(limits_.tls ? kBacklogOfShares : kBacklog);
  } catch (const boost::system::system_error& e) {
    if (e.code() != asio::error::address_in_use)
      return fail("cannot listen: " + e.code().message(), address,
                  "name another address with --listen");
    const auto holders = os::listeners_at({ip.to_string(), number});
    const auto stranger = os::stranger_of(holders);
    is_anothers_ = stranger || holders.empty();
    return fail("cannot listen: " + e.code().message() +
                    (stranger ? ", by " + os::user_name_of(*stranger) : ""),
                address, "name another port with --listen");
  }
  return ok();
}

Status HttpServer::listen(const std::string& address, std::string token) {
  const bool is_path = address.find('/') != std::string::npos;
  is_anothers_ = false;
  if (is_path && limits_.tls)
    return fail("a unix socket has no TLS: its file mode is the lock", address,
                "leave --tls-cert and --tls-key away, or name an address and port");
  try {
    STOKER_TRY_STATUS(is_path ? listen_unix(address) : listen_tcp(address));
  } catch (const boost::system::system_error& e) {
    return fail("cannot listen: " + e.code().message(), address, "name another with --listen");
  }
  if (!is_path) {
    token_ = std::move(token);
    cookie_ = session_cookie(token_);
  }
  accept();
  return ok();
}

std::uint16_t HttpServer::port() const {
  const auto* tcp = std::get_if<asio::ip::tcp::acceptor>(&acceptor_);
  Code ignored;
  return tcp != nullptr ? tcp->local_endpoint(ignored).port() : std::uint16_t{0};
}

std::string HttpServer::address() const {
  const auto* tcp = std::get_if<asio::ip::tcp::acceptor>(&acceptor_);
  if (tcp == nullptr) return file_.path;
  Code ignored;
  const auto endpoint = tcp->local_endpoint(ignored);
  const std::string host = endpoint.address().to_string();
  return fmt::format("{}:{}", endpoint.address().is_v6() ? "[" + host + "]" : host,
                     endpoint.port());
}

void HttpServer::accept() {
  const auto taken = [this](Code code, auto socket) {
    if (code == asio::error::operation_aborted) return;
    if (code) return accept_after(kOutOfDescriptors);
    PagePeer peer = peer_of(socket);
    peer.is_own = peer.is_own && limits_.own_is_free;
    // Ended here, not left in the kernel's queue, where it would stand before the next client.
    if (!has_share(peer) || !may_shake_hands(peer))
      return ++refused_ % kRefusedAtOnce == 0 ? accept_after(kLookAgain) : accept();
    const auto connection =
        std::make_shared<Connection>(Stream(std::move(socket)), *this, peer.name);
    connections_.push_back(connection);
    connection->start();
    accept();
  };
  if (!make_room()) return accept_after(kLookAgain);
  if (auto* tcp = std::get_if<asio::ip::tcp::acceptor>(&acceptor_))
    tcp->async_accept(taken);
  else if (auto* local = std::get_if<asio::local::stream_protocol::acceptor>(&acceptor_))
    local->async_accept(taken);
}

// Clear text on TCP: who asks has the token, or gets a refusal at once.
bool HttpServer::has_share(const PagePeer& peer) {
  if (peer.is_own || (file_.path.empty() && !limits_.tls)) return true;
  const auto open = std::count_if(connections_.begin(), connections_.end(), [&](const auto& known) {
    const auto connection = known.lock();
    return connection && connection->of() == peer.name;
  });
  return static_cast<std::size_t>(open) < limits_.peer_connections;
}

// False: all connections are taken, and none for so long that it can be ended. A tool sends its
// request at once: who has sent nothing yet goes first.
bool HttpServer::make_room() {
  connections_.remove_if([](const auto& known) { return known.expired(); });
  if (connections_.size() < limits_.connections) return true;
  const Instant now = monotonic_now();
  for (const auto& known : connections_) {
    const auto connection = known.lock();
    if (!connection || now - connection->began() < limits_.silent) break;  // the others are younger
    if (!connection->is_silent()) continue;
    connection->close();
    return false;
  }
  if (const auto oldest = connections_.front().lock();
      oldest && now - oldest->began() >= limits_.fair)
    oldest->close();
  return false;
}

// A handshake costs a thousand times what a refusal costs, and its sender is a stranger.
bool HttpServer::may_shake_hands(const PagePeer& peer) {
  if (!limits_.tls || peer.is_own) return true;
  return handshakes_.spend(peer, monotonic_now(), {limits_.peer_handshakes, limits_.handshakes});
}

void HttpServer::accept_after(Duration pause) {
  pause_.expires_after(pause);
  pause_.async_wait([this](Code stopped) {
    if (!stopped) accept();
  });
}

void HttpServer::close() {
  Code ignored;
  pause_.cancel(ignored);
  acceptor_ = std::monostate();
  // Another daemon may have put its own there.
  if (const SocketFile file = std::exchange(file_, {}); file.in_place())
    ::unlink(file.path.c_str());
}

Result<std::string> http_token(const std::string& path) {
  if (!os::exists(path)) {
    STOKER_TRY(made, os::claim_file(path, os::random_hex(16) + "\n", 0600));
    (void)made;
  }
  STOKER_TRY(text, os::read_file(path, 4096, true));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.size() < 16) return fail("the token is too short", path, "remove the file");
  return text;
}

}  // namespace stoker::daemon
