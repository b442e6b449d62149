// The web door: pages, token, limits.
#include <arpa/inet.h>
#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>

#include <boost/asio/post.hpp>

#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "daemon/http/http_server.hpp"
#include "tests/daemon/fixtures.hpp"

using namespace stoker;
using namespace stoker::daemon;
using namespace stoker::daemon::test;

namespace {

SiteView view() {
  SiteView v;
  wire::StatusDocument run;
  run.run = "a\"<b>";
  run.state = "training";
  run.iteration = 42;
  run.loss = 2.5;
  v.runs = {run};
  return v;
}

os::Fd connect_to(std::uint16_t port) {
  os::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

HttpServer::Render says(const std::string& text) {
  return [text](const WebRequest&, const HttpServer::Reply& reply) {
    reply(Page{200, "text/plain", text});
  };
}

Page page_of(const SiteView& view, const std::string& target) {
  return render_page(view, *parse_target(target));
}

struct Web {
  boost::asio::io_context io;
  std::unique_ptr<HttpServer> server;
  std::thread thread;
  explicit Web(HttpLimits limits = {}) {
    server = std::make_unique<HttpServer>(
        io,
        [](const WebRequest& request, const HttpServer::Reply& reply) {
          reply(render_page(view(), request));
        },
        limits);
    REQUIRE(server->listen("127.0.0.1:0", "secret-token"));
    thread = std::thread([this] { io.run(); });
  }
  ~Web() {
    io.stop();
    thread.join();
  }
  [[nodiscard]] os::Fd connect() const { return connect_to(server->port()); }
  [[nodiscard]] std::string ask(const std::string& request) const {
    const os::Fd fd = connect();
    (void)::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
    return read_all(fd);
  }
};

}  // namespace

TEST_CASE("http: the token decides") {
  Web web;
  CHECK(web.ask("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 401"));
  CHECK(web.ask("GET /healthz HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
                "secret-tokem\r\n\r\n")
            .starts_with("HTTP/1.1 401"));
  const auto good = web.ask(
      "GET /healthz HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-token\r\n\r\n");
  CHECK(good.starts_with("HTTP/1.1 200"));
  CHECK(good.ends_with("ok\n"));
  CHECK(web.ask("GET /metrics?token=secret-token HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .starts_with("HTTP/1.1 200"));
}

TEST_CASE("http: huge headers, bodies, other methods, silence -> refused") {
  HttpLimits limits;
  limits.connection = 100ms;
  Web web(limits);
  CHECK(web.ask("GET / HTTP/1.1\r\nX: " + std::string(20000, 'x') + "\r\n\r\n")
            .starts_with("HTTP/1.1 431"));
  CHECK(web.ask("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
            .starts_with("HTTP/1.1 405"));
  CHECK(web.ask("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello")
            .starts_with("HTTP/1.1 413"));
  CHECK(web.ask("GET / HT").empty());
}

TEST_CASE("http: peers that say nothing take all connections -> the next one is served") {
  HttpLimits limits;
  limits.connection = 1min;
  limits.connections = 4;
  limits.fair = 10ms;
  Web web(limits);
  std::vector<os::Fd> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(web.connect());
  CHECK(web.ask("GET /healthz?token=secret-token HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .starts_with("HTTP/1.1 200"));
}

TEST_CASE("http: all connections taken -> who has sent nothing goes before who has") {
  HttpLimits limits;
  limits.connection = 1min;
  limits.connections = 4;
  limits.fair = 1min;
  Web web(limits);
  const os::Fd slow = web.connect();
  REQUIRE(::send(slow.get(), "GET /", 5, MSG_NOSIGNAL) == 5);
  std::vector<os::Fd> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(web.connect());
  CHECK(web.ask("GET /healthz?token=secret-token HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .starts_with("HTTP/1.1 200"));
  const std::string rest = "healthz?token=secret-token HTTP/1.1\r\nHost: localhost\r\n\r\n";
  REQUIRE(::send(slow.get(), rest.data(), rest.size(), MSG_NOSIGNAL) > 0);
  CHECK(read_all(slow).starts_with("HTTP/1.1 200"));
}

#ifndef __SANITIZE_ADDRESS__  // the sanitizer's own look at objects needs descriptors
TEST_CASE("http: no descriptors left -> accepting rests instead of turning the loop") {
  boost::asio::io_context io;
  HttpServer server(io, says("page"));
  REQUIRE(server.listen("127.0.0.1:0", "token"));
  const os::Fd client = connect_to(server.port());
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(client.get());  // any further descriptor is above it
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const std::size_t handled = io.run_for(250ms);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(handled < 20);
  const std::string request = "GET /healthz?token=token HTTP/1.1\r\nHost: localhost\r\n\r\n";
  REQUIRE(::send(client.get(), request.data(), request.size(), MSG_NOSIGNAL) > 0);
  std::string page;
  for (int i = 0; i < 1000 && page.empty(); ++i) {
    io.run_for(10ms);
    char buffer[4096];
    const auto got = ::recv(client.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got > 0) page.assign(buffer, static_cast<std::size_t>(got));
  }
  CHECK(page.starts_with("HTTP/1.1 200"));
}
#endif

TEST_CASE(
    "http: a name that is not ours (DNS rebinding) -> refused; addresses and localhost -> not") {
  Web web;
  const auto status = [&](const std::string& host) {
    return web.ask("GET /healthz?token=secret-token HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
        .substr(9, 3);
  };
  for (const char* host :
       {"evil.example", "evil.example:9470", "localhost.evil.example", "127.0.0.1.evil.example",
        "[evil.example]", "[::1.evil", "[::1].evil.example"})
    CHECK_MESSAGE(status(host) == "421", host);
  const std::string ours = os::host_name();
  CHECK(status(ours.substr(0, ours.find('.')) + ".evil.example:9470") == "421");
  for (const std::string host :
       {"localhost", "localhost:9470", "127.0.0.1", "127.0.0.1:1", "[::1]:9470"})
    CHECK_MESSAGE(status(host) == "200", host);
  CHECK(status(os::host_name()) == "200");
}

TEST_CASE("http: an address beyond loopback -> refused, but with --insecure") {
  boost::asio::io_context io;
  const auto none = says("");
  HttpServer server(io, none);
  const auto refused = server.listen("0.0.0.0:0", "token");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message().find("--insecure") != std::string::npos);
  HttpLimits limits;
  limits.insecure = true;
  CHECK(HttpServer(io, none, limits).listen("0.0.0.0:0", "token"));
}

TEST_CASE("http: pages -> escaped, typed, complete") {
  CHECK(page_of(view(), "/nothing").status == 404);
  const auto home = page_of(view(), "/").body;
  CHECK(home.find("a&quot;&lt;b&gt;") != std::string::npos);
  CHECK(home.find("<b>") == std::string::npos);
  CHECK(page_of(view(), "/metrics").body.find("stoker_run_iteration{run=\"a\\\"<b>\"} 42\n") !=
        std::string::npos);
  auto sick = view();
  sick.health.journal_trouble = "the disk is full";
  CHECK(page_of(sick, "/healthz").status == 503);
  for (const char* file :
       {"page.js", "page.css", "icon.svg", "dygraph.min.js", "dygraph.min.css"}) {
    const auto page = page_of(view(), std::string("/assets/") + file);
    CHECK_MESSAGE(page.status == 200, file);
    CHECK(page.body.size() > 100);
  }
  for (const char* not_there : {"/assets/", "/assets/index.html", "/assets/../pages.hpp"})
    CHECK_MESSAGE(page_of(view(), not_there).status == 404, not_there);
}

TEST_CASE("http: the page brings no script or style of its own, and loads nothing from elsewhere") {
  for (const char* file : {"/", "/assets/page.js", "/assets/run.js", "/assets/charts.js",
                           "/assets/drawings.js", "/assets/words.js", "/assets/page.css"}) {
    const std::string text = page_of(SiteView{}, file).body;
    for (const char* bad :
         {"<script>", "style=", "onclick=", "innerHTML =", "eval(", "https://", "//cdn", "url("})
      CHECK_MESSAGE(text.find(bad) == std::string::npos, file << ": " << bad);
  }
}

TEST_CASE("http: every answer -> the headers of a page that trusts nothing") {
  Web web;
  const auto answer = web.ask(
      "GET /?x=1 HTTP/1.1\r\nHost: localhost\r\n"
      "Authorization: Bearer secret-token\r\n\r\n");
  CHECK(answer.starts_with("HTTP/1.1 400"));
  CHECK(answer.find("{\"error\":\"x: is no parameter") != std::string::npos);
  const auto page = web.ask(
      "GET / HTTP/1.1\r\nHost: localhost\r\n"
      "Authorization: Bearer secret-token\r\n\r\n");
  CHECK(page.starts_with("HTTP/1.1 200"));
  for (const std::string& head :
       {std::string("script-src 'self'"), std::string("style-src 'self'"),
        std::string("default-src 'none'"), std::string("Cache-Control: private, no-cache"),
        std::string("X-Content-Type-Options: nosniff"), std::string("ETag: \"")}) {
    CHECK_MESSAGE(page.find(head) != std::string::npos, head);
  }
  CHECK(page.find("unsafe") == std::string::npos);
}

TEST_CASE("http: an ETag that the client has -> 304 without a body; an old one -> 200") {
  Web web;
  const std::string ask =
      "GET /assets/page.js HTTP/1.1\r\nHost: localhost\r\n"
      "Authorization: Bearer secret-token\r\nIf-None-Match: ";
  const auto first = web.ask(ask + "\"old\"\r\n\r\n");
  REQUIRE(first.starts_with("HTTP/1.1 200"));
  const auto at = first.find("ETag: ") + 6;
  const std::string etag = first.substr(at, first.find('\r', at) - at);
  const auto second = web.ask(ask + "\"old\", W/" + etag + "\r\n\r\n");
  CHECK(second.starts_with("HTTP/1.1 304"));
  CHECK(second.ends_with("\r\n\r\n"));
  CHECK(web.ask(ask + etag + "x\r\n\r\n").starts_with("HTTP/1.1 200"));
}

TEST_CASE("http: the login address -> a cookie for this browser, no token left in the address") {
  Web web;
  const auto login = web.ask("GET /login?token=secret-token HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(login.starts_with("HTTP/1.1 303"));
  CHECK(login.find("Location: /\r\n") != std::string::npos);
  CHECK(login.find("; HttpOnly; SameSite=Strict;") != std::string::npos);
  CHECK(login.find("secret-token") == std::string::npos);
  const auto at = login.find("Set-Cookie: ") + 12;
  const std::string cookie = login.substr(at, login.find(';', at) - at);
  const auto with = [&](const std::string& text) {
    return web.ask("GET /healthz HTTP/1.1\r\nHost: localhost\r\nCookie: " + text + "\r\n\r\n")
        .substr(9, 3);
  };
  CHECK(with("theme=dark; " + cookie) == "200");
  CHECK(with(cookie + "0") == "401");
  const SessionCookie other = session_cookie("the token of another daemon");
  CHECK(with(other.name + "=" + other.value) == "401");
  CHECK(session_cookie("secret-token").name != other.name);
  CHECK(web.ask("GET /login?token=wrong HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .starts_with("HTTP/1.1 401"));
}

TEST_CASE("http: a hostile address -> one line of JSON") {
  for (const char* target : {"/%", "/%4", "/%zz", "/%00", "/a?b=%0a", "/a?b=1&b=2",
                             "/a?1&2&3&4&5&6&7&8&9&a&b&c&d&e&f&g&h"})
    CHECK_FALSE_MESSAGE(parse_target(target).has_value(), target);
  const auto good = parse_target("/api/v1/runs/a%20b/series?metric=loss&from=2026-05-01T00%3A00");
  REQUIRE(good);
  CHECK(good->path == "/api/v1/runs/a b/series");
  CHECK(good->query.at("from") == "2026-05-01T00:00");
}

TEST_CASE("http: the token's file -> 0600 and kept") {
  Folder folder;
  const auto token = http_token(folder / "http-token");
  REQUIRE(token);
  CHECK(token->size() == 32);
  CHECK(*http_token(folder / "http-token") == *token);
  struct stat info {};
  REQUIRE(::stat((folder / "http-token").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
}

TEST_CASE("http: a port in use -> one line that says so") {
  Web web;
  boost::asio::io_context io;
  HttpServer second(io, says(""));
  const auto listening =
      second.listen("127.0.0.1:" + std::to_string(web.server->port()), "secret-token");
  REQUIRE_FALSE(listening);
  CHECK(listening.error().message().find("in use") != std::string::npos);
}

TEST_CASE("http: what is no address -> one line with an example") {
  boost::asio::io_context io;
  HttpServer server(io, says(""));
  for (const char* wrong :
       {"127.0.0.1", "127.0.0.1:99999", "127.0.0.1:http", ":9470", "nobody:1"}) {
    const auto listening = server.listen(wrong, "secret-token");
    REQUIRE_FALSE(listening);
    CHECK(listening.error().message().find("127.0.0.1:9470") != std::string::npos);
  }
  REQUIRE(server.listen("localhost:0", "secret-token"));
  CHECK(server.address() == "127.0.0.1:" + std::to_string(server.port()));
}

TEST_CASE("http: a path -> a stale socket is replaced, a live one and a file are not") {
  Folder folder;
  boost::asio::io_context io;
  const auto render = says("");
  const std::string path = folder / "page.sock";
  HttpServer first(io, render), second(io, render);
  REQUIRE(first.listen(path, ""));
  const auto taken = second.listen(path, "");
  REQUIRE_FALSE(taken);
  CHECK(taken.error().what.find("listens there already") != std::string::npos);
  const std::string stale = folder / "stale.sock";
  {
    const os::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    stale.copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  CHECK(second.listen(stale, ""));
  const std::string file = folder / "notes.txt";
  REQUIRE(os::replace_file(file, "mine", os::Durability::Cached));
  HttpServer third(io, render);
  REQUIRE_FALSE(third.listen(file, ""));
  CHECK(*os::read_file(file) == "mine");
}

TEST_CASE("http: a path -> for its owner alone, in a setgid folder for the folder's group too") {
  const Folder folder;
  const auto mode_in = [&folder](mode_t of_folder) {
    REQUIRE(::chmod(folder.path.c_str(), of_folder) == 0);
    boost::asio::io_context io;
    HttpServer server(io, says(""));
    REQUIRE(server.listen(folder / "web.sock", ""));
    struct stat info {};
    REQUIRE(::stat((folder / "web.sock").c_str(), &info) == 0);
    return info.st_mode & 0777;
  };
  CHECK(mode_in(0775) == 0600);
  CHECK(mode_in(02775) == 0660);
}

TEST_CASE("web: somebody listens on the path with a full queue -> said at once, nothing waits") {
  const Folder folder;
  const std::string path = folder / "web.sock";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  auto* where = reinterpret_cast<sockaddr*>(&address);
  const os::Fd other(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(other.get(), where, sizeof address) == 0);
  REQUIRE(::listen(other.get(), 0) == 0);
  std::vector<os::Fd> crowd;
  do crowd.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  while (::connect(crowd.back().get(), where, sizeof address) == 0);
  boost::asio::io_context io;
  HttpServer server(io, says("x"));
  const Status done = server.listen(path, "token");
  REQUIRE_FALSE(done);
  CHECK(done.error().message().find("somebody listens there already") != std::string::npos);
  CHECK(os::exists(path));
}
