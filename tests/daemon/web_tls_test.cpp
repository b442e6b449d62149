// The page behind TLS: who may read it from other hosts, and what files are taken for it.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <memory>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <thread>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>

#include "common/os/files.hpp"
#include "daemon/http/http_server.hpp"
#include "tests/daemon/fixtures.hpp"

using namespace stoker;
using namespace stoker::daemon;
namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;

namespace {

constexpr long kYear = 365L * 24 * 3600;

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

// A certificate for page.example and 127.0.0.2 that signs itself, and its key.
struct Made {
  std::string certificate, key;
};
Made make_certificate(long ends_in_seconds) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> pair(EVP_EC_gen("P-256"),
                                                                 EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> made(X509_new(), X509_free);
  X509_set_version(made.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -2 * kYear);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), ends_in_seconds);
  X509_set_pubkey(made.get(), pair.get());
  X509_EXTENSION* names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:page.example,IP:127.0.0.2");
  X509_add_ext(made.get(), names, -1);
  X509_EXTENSION_free(names);
  X509_sign(made.get(), pair.get(), EVP_sha256());
  const std::unique_ptr<BIO, decltype(&BIO_free)> first(BIO_new(BIO_s_mem()), BIO_free),
      second(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_X509(first.get(), made.get());
  PEM_write_bio_PrivateKey(second.get(), pair.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return {text_of(first.get()), text_of(second.get())};
}

struct Files {
  stoker::testing::Folder folder;
  TlsFiles paths{folder / "host.pem", folder / "host.key"};
  std::vector<std::string> told;

  explicit Files(const Made& made = make_certificate(kYear)) { write(made); }
  void write(const Made& made, unsigned key_mode = 0600) const {
    REQUIRE(os::replace_file(paths.certificate, made.certificate, os::Durability::Cached));
    REQUIRE(os::replace_file(paths.key, made.key, os::Durability::Cached, key_mode));
  }
  auto open() {
    return Tls::open(paths, [this](const std::string& text) { told.push_back(text); });
  }
};

struct Web {
  asio::io_context io;
  Files files;
  std::unique_ptr<HttpServer> server;
  std::thread thread;

  explicit Web(HttpLimits limits = {}) {
    auto tls = files.open();
    REQUIRE(tls);
    limits.tls = *tls;
    server = std::make_unique<HttpServer>(
        io,
        [](const WebRequest&, const HttpServer::Reply& reply) {
          reply(Page{200, "text/plain", "the page\n"});
        },
        limits);
    REQUIRE(server->listen("0.0.0.0:0", "secret-token"));
    thread = std::thread([this] { io.run(); });
  }
  ~Web() {
    io.stop();
    thread.join();
  }
  [[nodiscard]] asio::ip::tcp::endpoint place() const {
    return {asio::ip::address_v4::loopback(), server->port()};
  }
  // "": no answer.
  [[nodiscard]] std::string ask(const std::string& request,
                                ssl::context::method method = ssl::context::tls_client) const {
    asio::io_context own;
    ssl::context context(method);
    ssl::stream<asio::ip::tcp::socket> stream(own, context);
    boost::system::error_code code;
    stream.next_layer().connect(place(), code);
    REQUIRE(!code);
    stream.handshake(ssl::stream_base::client, code);
    if (code) return "";
    asio::write(stream, asio::buffer(request), code);
    std::string answer;
    asio::read(stream, asio::dynamic_buffer(answer), code);
    return answer;
  }
  [[nodiscard]] std::string ask_host(const std::string& host) const {
    return ask("GET /healthz?token=secret-token HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  }
};

std::string refusal(Files& files) {
  const auto opened = files.open();
  REQUIRE_FALSE(opened);
  return opened.error().message();
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("web tls: beyond loopback the page is served through TLS, to who has the token") {
  const Web web;
  CHECK(web.ask("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 401"));
  const std::string page = web.ask_host("localhost");
  CHECK(page.starts_with("HTTP/1.1 200"));
  CHECK(page.ends_with("the page\n"));
  const auto welcome = web.ask("GET /login?token=secret-token HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(welcome.starts_with("HTTP/1.1 303"));
  CHECK(says(welcome, "; HttpOnly; SameSite=Strict; Max-Age=2592000; Secure\r\n"));
}

TEST_CASE("web tls: names of the certificate are ours, others are not (DNS rebinding)") {
  const Web web;
  for (const char* host : {"page.example", "page.example:9470", "127.0.0.2", "localhost"})
    CHECK_MESSAGE(web.ask_host(host).starts_with("HTTP/1.1 200"), host);
  for (const char* host : {"evil.example", "page.example.evil.example", "x.page.example"})
    CHECK_MESSAGE(web.ask_host(host).starts_with("HTTP/1.1 421"), host);
}

TEST_CASE("web tls: clear text and old protocols get no page") {
  const Web web;
  asio::io_context own;
  asio::ip::tcp::socket plain(own);
  plain.connect(web.place());
  asio::write(plain, asio::buffer(std::string("GET /healthz?token=secret-token HTTP/1.1\r\n\r\n")));
  std::string answer;
  boost::system::error_code code;
  asio::read(plain, asio::dynamic_buffer(answer), code);
  CHECK_FALSE(says(answer, "page"));
  CHECK(web.ask("GET / HTTP/1.1\r\n\r\n", ssl::context::tlsv11_client).empty());
  CHECK(web.ask_host("localhost").starts_with("HTTP/1.1 200"));
}

TEST_CASE("web tls: peers that never shake hands take all connections -> the next is served") {
  HttpLimits limits;
  limits.connection = 1min;
  limits.connections = 4;
  limits.fair = 10ms;
  const Web web(limits);
  asio::io_context own;
  std::vector<asio::ip::tcp::socket> silent;
  for (int i = 0; i < 40; ++i) silent.emplace_back(own).connect(web.place());
  CHECK(web.ask_host("localhost").starts_with("HTTP/1.1 200"));
}

TEST_CASE("web tls: a peer above its handshakes a second -> refused at once, and served later") {
  HttpLimits limits;
  limits.own_is_free = false;
  limits.peer_handshakes = 3;
  const Web web(limits);
  const auto served = [&] { return web.ask_host("localhost").starts_with("HTTP/1.1 200"); };
  const auto began = std::chrono::steady_clock::now();
  int count = 0;
  for (int i = 0; i < 20; ++i) count += served();
  const auto took = std::chrono::steady_clock::now() - began;
  CHECK(count >= 3);
  CHECK(count <= 4 + 3 * std::chrono::ceil<std::chrono::seconds>(took).count());
  CHECK(count < 20);
  std::this_thread::sleep_for(500ms);
  CHECK(served());
}

TEST_CASE("web tls: our own user has no share to keep to") {
  HttpLimits limits;
  limits.peer_handshakes = limits.handshakes = 2;
  const Web web(limits);
  for (int i = 0; i < 10; ++i) CHECK(web.ask_host("localhost").starts_with("HTTP/1.1 200"));
}

TEST_CASE("web tls: a peer with all its connections open -> its next one is ended, not kept") {
  HttpLimits limits;
  limits.own_is_free = false;
  limits.peer_connections = 3;
  limits.connection = 1min;
  const Web web(limits);
  asio::io_context own;
  std::vector<asio::ip::tcp::socket> silent;
  for (int i = 0; i < 3; ++i) silent.emplace_back(own).connect(web.place());
  CHECK_FALSE(web.ask_host("localhost").starts_with("HTTP/1.1 200"));
  silent.clear();
  std::this_thread::sleep_for(100ms);
  CHECK(web.ask_host("localhost").starts_with("HTTP/1.1 200"));
}

TEST_CASE("web tls: files that cannot be right are refused in one line") {
  Files files;
  REQUIRE(files.open());
  const Made good = make_certificate(kYear);
  files.write(good, 0644);
  CHECK(says(refusal(files), "refused: other users can read the key"));
  files.write({good.certificate, make_certificate(kYear).key});
  CHECK(says(refusal(files), "not the key of the certificate"));
  files.write({"-----BEGIN CERTIFICATE-----\nnonsense\n", good.key});
  CHECK(says(refusal(files), "not a certificate in PEM"));
  files.write({good.certificate, ""});
  CHECK(says(refusal(files), "not the key of the certificate"));
  files.write(make_certificate(-3600));
  CHECK(says(refusal(files), "the certificate has ended"));
  REQUIRE(::unlink(files.paths.key.c_str()) == 0);
  CHECK(says(refusal(files), "cannot read the key"));
}

TEST_CASE("web tls: a renewed certificate is taken, one that does not work is not") {
  Files files;
  const auto tls = files.open();
  REQUIRE(tls);
  Instant now(1h);
  const auto first = (*tls)->context(now);
  CHECK((*tls)->context(now += 2min) == first);
  files.write(make_certificate(kYear));
  CHECK((*tls)->context(now += 1s) == first);  // not checked yet
  const auto second = (*tls)->context(now += 2min);
  CHECK(second != first);
  files.write(make_certificate(-3600));
  CHECK((*tls)->context(now += 2min) == second);
  CHECK((*tls)->context(now += 2min) == second);
  REQUIRE(files.told.size() == 2);
  CHECK(says(files.told[0], "the page has a new certificate"));
  CHECK(says(files.told[1], "keeps its old certificate: "));
  CHECK(says(files.told[1], "the certificate has ended"));
}

TEST_CASE("web tls: a unix socket has none") {
  Files files;
  asio::io_context io;
  HttpLimits limits;
  limits.tls = *files.open();
  HttpServer server(
      io, [](const WebRequest&, const HttpServer::Reply&) {}, limits);
  const auto refused = server.listen(files.folder / "web.sock", "token");
  REQUIRE_FALSE(refused);
  CHECK(says(refused.error().message(), "a unix socket has no TLS"));
}
