// The web door: pages, token, limits.
#include <arpa/inet.h>
#include <doctest/doctest.h>
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

struct Web {
  boost::asio::io_context io;
  std::unique_ptr<HttpServer> server;
  std::thread thread;
  explicit Web(HttpLimits limits = {}) {
    server = std::make_unique<HttpServer>(
        io, [](std::string_view path) { return render_page(view(), path); }, limits);
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
  Web web({8192, 100ms});
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

TEST_CASE("http: no descriptors left -> accepting rests instead of turning the loop") {
  boost::asio::io_context io;
  HttpServer server(io, [](std::string_view) { return Page{200, "text/plain", "page"}; });
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
  const std::string request = "GET /?token=token HTTP/1.1\r\nHost: localhost\r\n\r\n";
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

TEST_CASE(
    "http: a name that is not ours (DNS rebinding) -> refused; addresses and localhost -> not") {
  Web web;
  const auto status = [&](const std::string& host) {
    return web.ask("GET /healthz?token=secret-token HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
        .substr(9, 3);
  };
  for (const char* host :
       {"evil.example", "evil.example:9470", "localhost.evil.example", "127.0.0.1.evil.example"})
    CHECK_MESSAGE(status(host) == "421", host);
  for (const std::string host :
       {"localhost", "localhost:9470", "127.0.0.1", "127.0.0.1:1", "[::1]:9470"})
    CHECK_MESSAGE(status(host) == "200", host);
  CHECK(status(os::host_name()) == "200");
}

TEST_CASE("http: an address beyond loopback -> refused, but with --insecure") {
  boost::asio::io_context io;
  const auto none = [](std::string_view) { return Page{200, "text/plain", ""}; };
  HttpServer server(io, none);
  const auto refused = server.listen("0.0.0.0:0", "token");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message().find("--insecure") != std::string::npos);
  HttpLimits limits;
  limits.insecure = true;
  CHECK(HttpServer(io, none, limits).listen("0.0.0.0:0", "token"));
}

TEST_CASE("http: pages -> escaped, typed, complete") {
  CHECK(render_page(view(), "/nothing").status == 404);
  const auto home = render_page(view(), "/").body;
  CHECK(home.find("a&quot;&lt;b&gt;") != std::string::npos);
  CHECK(home.find("<b>") == std::string::npos);
  const auto metrics = render_metrics(view());
  CHECK(metrics.ends_with("# EOF\n"));
  CHECK(metrics.find("stoker_run_iteration{run=\"a\\\"<b>\"} 42\n") != std::string::npos);
  CHECK(metrics.find("# TYPE stoker_run_restarts counter") != std::string::npos);
  CHECK(metrics.find("stoker_run_restarts_total{") != std::string::npos);
  auto sick = view();
  sick.health.journal_trouble = "the disk is full";
  CHECK(render_page(sick, "/healthz").status == 503);
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
  HttpServer second(io, [](std::string_view) { return Page{}; });
  const auto listening =
      second.listen("127.0.0.1:" + std::to_string(web.server->port()), "secret-token");
  REQUIRE_FALSE(listening);
  CHECK(listening.error().message().find("in use") != std::string::npos);
}

TEST_CASE("http: what is no address -> one line with an example") {
  boost::asio::io_context io;
  HttpServer server(io, [](std::string_view) { return Page{}; });
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
  const auto render = [](std::string_view) { return Page{}; };
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
