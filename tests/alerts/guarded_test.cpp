// A secret in clear text to a port of this host: every user may listen there while its server is
// away.
#include <atomic>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>

#include "alerts/courier.hpp"
#include "alerts/url.hpp"
#include "common/os/files.hpp"
#include "tests/alerts/local_server.hpp"
#include "tests/alerts/one_of_each.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using namespace stoker::alerts;
using stoker::alerts::testing::LocalServer;

namespace {

constexpr uid_t kStranger = 54321;

// Listens as another user, and remembers what it was sent first.
class StrangersPort {
 public:
  StrangersPort() {
    std::thread([this] {  // a socket belongs to the user of the thread that makes it
      REQUIRE(::syscall(SYS_setresuid, -1, kStranger, -1) == 0);
      server_ = std::make_unique<LocalServer>();
    })
        .join();
  }
  LocalServer& server() { return *server_; }

 private:
  std::unique_ptr<LocalServer> server_;
};

Request request_of(const core::SinkPolicy& policy) {
  RenderedAlert alert;
  auto request = (*make_sink(policy))->request(alert, WallTime{});
  REQUIRE(request.has_value());
  return *request;
}

Answer answer_to(const Request& request) {
  Courier courier;
  courier.start(1, request);
  for (const Instant until = monotonic_now() + 1min; monotonic_now() < until;)
    if (auto answers = courier.wait(100ms); !answers.empty()) return answers.front().second;
  FAIL("no answer");
  return {};
}

// Keeps its connections, and remembers on which one each request came.
class PatientServer {
 public:
  PatientServer() : thread_([this] { serve(); }) {}
  ~PatientServer() {
    stop_ = true;
    thread_.join();
  }
  [[nodiscard]] std::string url() const { return socket_.url(); }
  std::vector<std::size_t> connections() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  void serve() {
    std::vector<os::Fd> clients;
    while (!stop_) {
      std::vector<pollfd> waiting{{socket_.descriptor(), POLLIN, 0}};
      for (const os::Fd& client : clients) waiting.push_back({client.get(), POLLIN, 0});
      if (::poll(waiting.data(), waiting.size(), 10) <= 0) continue;
      for (std::size_t i = 1; i < waiting.size(); ++i)
        if (waiting[i].revents != 0) answer(clients[i - 1], i);
      if (waiting[0].revents != 0)
        clients.emplace_back(::accept4(socket_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    }
  }
  void answer(const os::Fd& client, std::size_t number) {
    char text[4096];  // NOLINT
    const ssize_t got = ::read(client.get(), text, sizeof text);
    if (got <= 0 || !std::string_view(text, static_cast<std::size_t>(got)).starts_with("POST"))
      return;
    {
      const std::lock_guard lock(mutex_);
      seen_.push_back(number);
    }
    constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    (void)!::write(client.get(), kAnswer.data(), kAnswer.size());
  }

  LocalServer socket_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::vector<std::size_t> seen_;
  std::thread thread_;
};

// A courier with a request under way, and another one to a server that answers.
struct Beside {
  LocalServer server;
  Courier courier;
  std::vector<std::uint64_t> order;  // ids, as they were answered

  Beside() { server.start(); }
  void start_other() {
    HttpRequest other;
    other.url = server.url();
    other.body = "{}";
    courier.start(2, other);
  }
  void work() {
    for (const auto& [id, answer] : courier.wait(20ms)) order.push_back(id);
  }
};

}  // namespace

// A kept one may be another user's by now, and has no deadline of the new transfer.
TEST_CASE(
    "courier: several requests to one server, guarded or not -> each has its own connection") {
  PatientServer server;
  HttpRequest plain;
  plain.url = server.url();
  plain.body = "{}";
  HttpRequest guarded = plain;
  guarded.guard = os::Guard::OnlyHere;
  Courier courier;
  for (const HttpRequest& request : {plain, plain, guarded, plain}) {
    courier.start(1, request);
    std::vector<std::pair<std::uint64_t, Answer>> answers;
    const Instant until = monotonic_now() + 1min;
    while (answers.empty() && monotonic_now() < until) answers = courier.wait(100ms);
    REQUIRE(answers.size() == 1);
    CHECK(answers.front().second.status == 200);
  }
  std::string seen;
  for (const std::size_t connection : server.connections()) seen += std::to_string(connection);
  CHECK(seen == "1234");
}

TEST_CASE(
    "guarded: a stranger listens -> nothing is sent, with a secret or not; insecure -> sent") {
  const stoker::testing::Folder folder;
  const std::string secret = folder.write("secret", "Basic c2VjcmV0\n");
  REQUIRE(os::replace_file(secret, "Basic c2VjcmV0\n", os::Durability::Cached, 0600));
  const auto policy = [&](const LocalServer& server, bool with_secret, bool insecure) {
    core::SinkPolicy sink{"am", "alertmanager", {{"url", server.url()}}};
    if (with_secret) sink.options["authorization_file"] = secret;
    if (insecure) sink.options["insecure"] = "true";
    return sink;
  };
  LocalServer ours;
  ours.start();
  CHECK(answer_to(request_of(policy(ours, true, false))).status == 200);
  if (::geteuid() != 0) return;
  StrangersPort stranger;
  stranger.server().start();
  const Answer refused = answer_to(request_of(policy(stranger.server(), true, false)));
  CHECK(refused.status == 0);
  CHECK(refused.error.find("refused: uid 54321 listens on 127.0.0.1 port ") == 0);
  CHECK(refused.error.find("insecure: true") != std::string::npos);
  CHECK(stranger.server().asked() == 0);
  CHECK(answer_to(request_of(policy(stranger.server(), false, false))).error.find("refused: ") ==
        0);
  CHECK(stranger.server().asked() == 0);
  CHECK(answer_to(request_of(policy(stranger.server(), true, true))).status == 200);
}

// libcurl gives the password of a proxy to what listens on its port.
TEST_CASE("guarded: a stranger on the port of a proxy with a password -> nothing is sent") {
  CHECK(os::guard_of_proxy() == os::Guard::Anyone);
  HttpRequest request;
  request.url = "https://hooks.example.org/x";
  request.body = "{}";
  request.timeout = 1s;
  const auto through = [&](const LocalServer& proxy) {
    const std::string port = parse_url(proxy.url())->port;
    ::setenv("https_proxy", ("http://user:secret@127.0.0.1:" + port).c_str(), 1);
    CHECK(os::guard_of_proxy() == os::Guard::NoStrangerHere);
    const Answer answer = answer_to(request);
    ::unsetenv("https_proxy");
    return answer.error;
  };
  LocalServer ours;  // it takes connections, and answers none
  CHECK(through(ours).find("refused: ") == std::string::npos);
  if (::geteuid() != 0) return;
  StrangersPort stranger;
  const std::string error = through(stranger.server());
  CHECK(error.find("refused: uid 54321 listens on 127.0.0.1 port ") == 0);
  CHECK(error.find("https_proxy or all_proxy names it") != std::string::npos);
  CHECK(stranger.server().asked() == 0);
}

TEST_CASE("guarded: a relay's answers without end -> an error, and the mail is not delivered") {
  LocalServer relay;  // only its port: it is served here
  std::thread endless([&] {
    const os::Fd client(::accept4(relay.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    const std::string line = "220-" + std::string(90, 'x') + "\r\n";
    for (int n = 0; n < 20'000; ++n)  // 2 MB
      if (::send(client.get(), line.data(), line.size(), MSG_NOSIGNAL) < 0) return;
  });
  MailRequest mail;
  mail.url = "smtp://127.0.0.1:" + parse_url(relay.url())->port;
  mail.from = "a@b.c";
  mail.to = {"d@e.f"};
  const Answer answer = answer_to(mail);
  endless.join();
  CHECK(answer.error.find("longer than what is read") != std::string::npos);
  const stoker::alerts::test::Secrets secrets;
  const auto sink = make_sink(stoker::alerts::test::one_of_each(secrets).front());
  CHECK(std::holds_alternative<Retry>((*sink)->judge(answer)));
}

TEST_CASE("courier: a relay that does not answer QUIT -> other requests do not wait for it") {
  LocalServer relay;  // only its port: it is served here
  std::atomic<bool> asked_to_quit = false, other_is_done = false;
  std::thread silent([&] {
    const os::Fd client(::accept4(relay.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    const auto say = [&](const std::string& line) {
      (void)!::send(client.get(), line.data(), line.size(), MSG_NOSIGNAL);
    };
    say("220 relay\r\n");
    char line[512];
    while (!asked_to_quit) {
      const ssize_t n = ::recv(client.get(), line, sizeof line, 0);
      if (n <= 0) return;
      const std::string_view word(line, static_cast<std::size_t>(n));
      asked_to_quit = word.starts_with("QUIT");
      if (!asked_to_quit) say(word.starts_with("RCPT") ? "451 later\r\n" : "250 relay\r\n");
    }
    while (!other_is_done) std::this_thread::sleep_for(1ms);
  });
  MailRequest mail;
  mail.url = "smtp://127.0.0.1:" + parse_url(relay.url())->port;
  mail.from = "a@b.c";
  mail.to = {"d@e.f"};
  mail.timeout = 10s;
  Beside beside;
  beside.courier.start(1, mail);
  while (!asked_to_quit && beside.order.empty()) beside.work();
  beside.start_other();
  while (beside.order.empty()) beside.work();
  other_is_done = true;
  while (beside.order.size() < 2) beside.work();
  silent.join();
  CHECK(beside.order == std::vector<std::uint64_t>{2, 1});
}

TEST_CASE("courier: a port of this host that takes no connection -> other requests do not wait") {
  LocalServer full;
  std::vector<os::Fd> waiting;
  const std::string port = parse_url(full.url())->port;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
  bool taken = true;
  while (taken && waiting.size() < 4096) {  // until the queue of the kernel is full
    waiting.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)::connect(waiting.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    pollfd ready{waiting.back().get(), POLLOUT, 0};
    taken = ::poll(&ready, 1, 300) == 1;
  }
  REQUIRE_FALSE(taken);
  HttpRequest guarded;
  guarded.url = full.url();
  guarded.body = "{}";
  guarded.guard = os::Guard::OnlyHere;
  Beside beside;
  beside.courier.start(1, guarded);
  beside.work();
  beside.start_other();
  while (beside.order.size() < 2) beside.work();
  CHECK(beside.order == std::vector<std::uint64_t>{2, 1});
}

TEST_CASE("sinks: certificates that others may have written -> nothing is sent") {
  const stoker::testing::Folder folder;
  const std::string file = folder.write("ca.pem", "");
  core::SinkPolicy policy{"am", "alertmanager", {{"url", "https://localhost/"}, {"ca_file", file}}};
  CHECK((*make_sink(policy))->request(RenderedAlert{}, WallTime{}).has_value());
  REQUIRE(::chmod(file.c_str(), 0666) == 0);
  const auto open = (*make_sink(policy))->request(RenderedAlert{}, WallTime{});
  REQUIRE_FALSE(open.has_value());
  CHECK(open.error().message().find("refused: ") != std::string::npos);
}

TEST_CASE("guarded: any request, a mail before its password") {
  if (::geteuid() != 0) return;
  StrangersPort stranger;
  stranger.server().start();
  HttpRequest request;
  request.url = stranger.server().url();
  request.body = "{}";
  request.guard = os::Guard::OnlyHere;
  CHECK(answer_to(request).status == 0);
  MailRequest mail;
  mail.url = "smtp://127.0.0.1:" + parse_url(request.url)->port;
  mail.from = "a@b.c";
  mail.to = {"d@e.f"};
  mail.user = "relay";
  mail.password = "secret";
  mail.guard = os::Guard::OnlyHere;
  CHECK(answer_to(mail).error.find("refused: uid 54321 listens") == 0);
  CHECK(stranger.server().asked() == 0);
}

TEST_CASE("url: this host by number or name; a name that begins like a number is another host") {
  for (const char* url :
       {"http://127.0.0.1:1/", "http://127.9.9.9/", "http://localhost/", "http://[::1]/"})
    CHECK(parse_url(url)->loopback());
  for (const char* url :
       {"http://127.example.org/", "http://127.0.0.1.example.org/", "http://10.0.0.1/"})
    CHECK_FALSE(parse_url(url)->loopback());
}

TEST_CASE("sinks: a secret over plain http to another host -> not sent") {
  const stoker::alerts::test::Secrets secrets;
  const std::string hook = secrets.keep("hook", "http://chat.example.org/hooks/abcdefghij");
  const auto ask = [&](const std::string& insecure) {
    core::SinkPolicy policy{"chat", "slack", {{"url_file", hook}}};
    if (!insecure.empty()) policy.options["insecure"] = insecure;
    return (*make_sink(policy))->request(RenderedAlert{}, WallTime{});
  };
  REQUIRE_FALSE(ask("").has_value());
  CHECK(ask("").error().message() ==
        "alerts.sinks.chat: a secret would go over plain http to chat.example.org; use https, or "
        "set insecure: true");
  CHECK(ask("true").has_value());
}

// Each kind with the options that it needs, its secrets in files: none may go its own way.
TEST_CASE("sinks: every kind over plain http to another host -> its secret is not sent") {
  const stoker::alerts::test::Secrets secrets;
  const std::string url = "http://bridge.example.org/hooks/abcdefghij";
  const std::string hook = secrets.keep("hook", url), key = secrets.keep("key", "s3cr3t-key");
  std::size_t tried = 0;
  for (const SinkKind& kind : known_sinks()) {
    core::SinkPolicy policy{"x", kind.kind, {}};
    const auto has = [&](const std::string& name) {
      return std::any_of(kind.options.begin(), kind.options.end(),
                         [&](const SinkOption& option) { return option.name == name; });
    };
    if (!has("url") && !has("url_file")) continue;  // no HTTP
    if (has("room")) policy.options["room"] = "!a:b";
    if (has("topic")) policy.options["topic"] = "t";
    if (has("url"))
      policy.options["url"] = url;
    else
      policy.options["url_file"] = hook;
    bool secret = !has("url");
    for (const SinkOption& option : kind.options)
      if (option.name.ends_with("_file") && option.name != "ca_file" && option.name != "url_file") {
        policy.options[option.name] = key;
        secret = true;
      }
    CAPTURE(kind.kind);
    CHECK(secret);
    const auto sink = make_sink(policy);
    REQUIRE_MESSAGE(sink.has_value(), kind.kind);
    const auto request = (*sink)->request(RenderedAlert{}, WallTime{});
    REQUIRE_FALSE(request.has_value());
    CHECK(request.error().message().find("a secret would go over plain http") != std::string::npos);
    if (has("template")) {
      policy.options["template"] = "{\"text\": \"{title}\"}";
      CHECK_FALSE((*make_sink(policy))->request(RenderedAlert{}, WallTime{}).has_value());
    }
    ++tried;
  }
  CHECK(tried >= 10);
}
