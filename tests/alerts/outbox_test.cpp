// The outbox against a server that fails, hangs and recovers, and against kill -9.
#include "alerts/outbox.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "alerts/sink.hpp"
#include "common/os/files.hpp"
#include "tests/alerts/local_server.hpp"
#include "tests/alerts/outbox_site.hpp"

using namespace stoker;
using namespace stoker::alerts;
using namespace stoker::alerts::testing;

TEST_CASE("outbox: a server that fails, hangs, is busy, recovers -> delivered once, in the end") {
  const Site site;
  LocalServer server;
  server.start();
  server.set(Mood::Fail);
  const auto outbox = site.open();
  REQUIRE(outbox->accept(EffectKey("hello/1/0"), alert_of("hello/a"),
                         policy_of(server.url(), "200ms")));
  REQUIRE(becomes([&] { return server.asked() >= 2; }));
  server.set(Mood::Hang);
  REQUIRE(becomes([&] { return server.asked() >= 4; }));
  CHECK(outbox->health().waiting == 1);
  CHECK(outbox->health().oldest.has_value());
  server.set(Mood::Busy);
  const int before = server.asked();
  REQUIRE(becomes([&] { return server.asked() > before; }));
  const Instant busy = monotonic_now();
  server.set(Mood::Ok);
  REQUIRE(outbox->wait_idle(5s));
  CHECK(monotonic_now() - busy > 700ms);  // Retry-After: 1
  REQUIRE(server.taken().size() == 1);
  const auto body = parse_json(server.taken()[0], "body");
  REQUIRE(body.has_value());
  CHECK(body->at("version") == "4");
  CHECK(body->at("status") == "firing");
  CHECK(body->at("receiver") == "hook");
  const auto& alert = body->at("alerts").at(0);
  CHECK(alert.at("labels").at("alertname") == "rank_crash");
  CHECK(alert.at("labels").at("severity") == "critical");
  CHECK(alert.at("labels").at("run") == "hello");
  CHECK(alert.at("annotations").at("command") == "stoker why hello");
  CHECK(alert.at("endsAt") == "0001-01-01T00:00:00Z");
  CHECK(count_of(site.pulse(), "***ALERT: hello: rank 3 crashed (critical). rank 3 on n02") == 1);
}

TEST_CASE("outbox: a refusal -> never repeated, noted in the pulse log") {
  const Site site;
  LocalServer server;
  server.start();
  server.set(Mood::Refuse);
  const auto outbox = site.open();
  REQUIRE(outbox->accept(EffectKey("hello/1/0"), alert_of("hello/a"), policy_of(server.url())));
  REQUIRE(outbox->wait_idle(5s));
  std::this_thread::sleep_for(150ms);
  CHECK(server.asked() == 1);
  CHECK(site.pulse().find("sink hook refused alert hello/a: answer 400") != std::string::npos);
}

TEST_CASE(
    "outbox: redirects, expired secrets, missing pages -> tried again, delivered when fixed") {
  const Site site;
  LocalServer server;
  server.start();
  const auto outbox = site.open();
  for (const Mood mood : {Mood::Redirect, Mood::Forbid}) {
    server.set(mood);
    const int before = server.asked();
    const std::string key = "hello/" + std::to_string(before);
    REQUIRE(outbox->accept(EffectKey(key), alert_of(key), policy_of(server.url())));
    REQUIRE(becomes([&] { return server.asked() >= before + 2; }));
    server.set(Mood::Ok);
    REQUIRE(outbox->wait_idle(5s));
  }
  CHECK(server.taken().size() == 2);
}

TEST_CASE("outbox: a sink that hangs with many alerts -> the other sink gets its own at once") {
  const Site site;
  LocalServer hanging, good;
  hanging.set(Mood::Hang);
  hanging.start();
  good.start();
  core::AlertPolicy policy = policy_of(hanging.url(), "60s");
  policy.sinks.push_back(policy_of(good.url()).sinks.at(0));
  policy.sinks.back().name = "other";
  policy.routes.clear();  // without routes every sink receives it
  const auto outbox = site.open();
  for (int i = 0; i < 80; ++i) {
    const std::string id = "hello/" + std::to_string(i);
    REQUIRE(outbox->accept(EffectKey(id), alert_of(id), policy));
  }
  REQUIRE(becomes([&] { return good.taken().size() == 80; }, 30s));
  CHECK(hanging.asked() <= 4);
}

TEST_CASE("outbox: no listener for too long -> gives up, with a note") {
  const Site site;
  OutboxOptions options = site.options();
  options.give_up = 100ms;
  auto outbox = OutboxAlerts::open(options);
  REQUIRE(outbox.has_value());
  REQUIRE((*outbox)->accept(EffectKey("hello/1/0"), alert_of("hello/a"),
                            policy_of("http://127.0.0.1:1/", "200ms")));
  REQUIRE((*outbox)->wait_idle(5s));
  REQUIRE((*outbox)->health().notes.size() == 1);
  CHECK((*outbox)->health().notes[0].starts_with("gave up on alert hello/a for sink hook after"));
}

TEST_CASE("outbox: the same key again, also after a restart -> sent once") {
  const Site site;
  LocalServer server;
  server.start();
  for (int i = 0; i < 3; ++i) {
    const auto outbox = site.open();
    REQUIRE(outbox->accept(EffectKey("hello/1/0"), alert_of("hello/a"), policy_of(server.url())));
    REQUIRE(outbox->accept(EffectKey("hello/1/0"), alert_of("hello/a"), policy_of(server.url())));
    REQUIRE(outbox->wait_idle(5s));
  }
  CHECK(server.taken().size() == 1);
  CHECK(count_of(site.pulse(), "***ALERT") == 1);
}

TEST_CASE(
    "outbox: an incident reported again -> within `repeat` only when graver; resolved goes out") {
  const Site site;
  LocalServer server;
  server.start();
  const auto policy = policy_of(server.url());
  const auto outbox = site.open();
  const auto tell = [&](int seq, core::Severity severity, bool resolved = false) {
    const EffectKey key("hello/" + std::to_string(seq) + "/0");
    REQUIRE(outbox->accept(key, alert_of("hello/a", severity, resolved), policy));
    REQUIRE(outbox->wait_idle(5s));
    return server.taken().size();
  };
  CHECK(tell(1, core::Severity::Warning) == 1);
  CHECK(tell(2, core::Severity::Warning) == 1);
  CHECK(tell(3, core::Severity::Critical) == 2);
  CHECK(tell(4, core::Severity::Critical, true) == 3);
  CHECK(server.taken()[2].find("\"status\":\"resolved\"") != std::string::npos);
  CHECK(tell(5, core::Severity::Warning) == 4);  // a new incident under the same id
}

TEST_CASE(
    "outbox: an alert that stays open -> reported again after `repeat`, not by the pulse log") {
  const Site site;
  LocalServer server;
  server.start();
  core::AlertPolicy policy = policy_of(server.url());
  policy.routes[0].repeat = 100ms;
  const auto outbox = site.open();
  REQUIRE(outbox->accept(EffectKey("hello/1/0"), alert_of("hello/a"), policy));
  outbox->repeat_open({alert_of("hello/a")}, policy);
  REQUIRE(outbox->wait_idle(5s));
  CHECK(server.taken().size() == 1);
  std::this_thread::sleep_for(120ms);
  outbox->repeat_open({alert_of("hello/a"), alert_of("hello/never-sent")}, policy);
  REQUIRE(outbox->wait_idle(5s));
  CHECK(server.taken().size() == 2);
  CHECK(count_of(site.pulse(), "***ALERT") == 1);
}

TEST_CASE("outbox: two alerts of one incident while the server is down -> arrive in order") {
  const Site site;
  LocalServer server;
  server.start();
  server.set(Mood::Fail);
  const auto policy = policy_of(server.url());
  const auto outbox = site.open();
  REQUIRE(outbox->accept(EffectKey("hello/1/0"), alert_of("hello/a"), policy));
  REQUIRE(becomes([&] { return server.asked() >= 3; }));
  REQUIRE(outbox->accept(EffectKey("hello/2/0"),
                         alert_of("hello/a", core::Severity::Critical, true), policy));
  server.set(Mood::Ok);
  REQUIRE(outbox->wait_idle(5s));
  REQUIRE(server.taken().size() == 2);
  CHECK(server.taken()[0].find("\"status\":\"firing\"") != std::string::npos);
  CHECK(server.taken()[1].find("\"status\":\"resolved\"") != std::string::npos);
}

TEST_CASE("outbox: kill -9 between accept and delivery, and between attempts -> nothing is lost") {
  const Site site;
  LocalServer server;  // takes connections, answers nothing yet
  constexpr int kRounds = 12;
  for (int round = 0; round < kRounds; ++round)
    accept_and_be_killed(
        [&] {
          auto outbox = site.open();
          const std::string id = "hello/alert-" + std::to_string(round);
          const auto policy = policy_of(server.url(), "100ms");
          return outbox->accept(EffectKey(id + "/0"), alert_of(id), policy) ? std::move(outbox)
                                                                            : nullptr;
        },
        std::chrono::milliseconds(round * 15));
  server.start();
  const auto outbox = site.open();
  REQUIRE(outbox->wait_idle(10s));
  std::string all;
  for (const auto& body : server.taken()) all += body;
  for (int round = 0; round < kRounds; ++round) {
    const std::string id = "hello/alert-" + std::to_string(round);
    CHECK(all.find("{}:{id=\\\"" + id + "\\\"}") != std::string::npos);
  }
  CHECK(count_of(site.pulse(), "***ALERT") >= kRounds);
  CHECK(outbox->health().notes.empty());
}

TEST_CASE("outbox: a damaged entry -> set aside and noted, the others are delivered") {
  const Site site;
  LocalServer server;
  server.start();
  server.set(Mood::Fail);
  {
    const auto outbox = site.open();
    REQUIRE(outbox->accept(EffectKey("hello/1/0"), alert_of("hello/a"), policy_of(server.url())));
  }
  std::ofstream(site.path + "/outbox/0123456789abcdef.json") << "{\"number\": ";
  server.set(Mood::Ok);
  const auto outbox = site.open();
  REQUIRE(outbox->wait_idle(5s));
  CHECK(server.taken().size() >= 1);  // a try of the outbox before may arrive late
  CHECK(outbox->health().notes.size() == 1);
  CHECK(os::exists(site.path + "/outbox/0123456789abcdef.json.damaged"));
}

TEST_CASE("outbox: test -> one through every sink, each with its result") {
  const Site site;
  LocalServer server;
  server.start();
  core::AlertPolicy policy = policy_of(server.url());
  policy.sinks.push_back({"dead", "webhook", {{"url", "http://127.0.0.1:1/"}}});
  policy.sinks.push_back({"strange", "pigeon", {}});
  const auto results = site.open()->test(policy);
  REQUIRE(results.size() == 4);
  CHECK(results[0].sink == kPulseSink);
  CHECK(results[0].ok);
  CHECK(results[1].ok);
  CHECK_FALSE(results[2].ok);
  CHECK(results[2].detail == "Couldn't connect to server");
  CHECK(results[3].detail.find("unknown kind of sink \"pigeon\"") != std::string::npos);
  CHECK(site.pulse().find("PULSE: test: a test alert of stoker") != std::string::npos);
}

TEST_CASE("outbox: a folder that cannot be made -> an error, no outbox") {
  OutboxOptions options;
  options.directory = "/proc/nowhere/outbox";
  CHECK_FALSE(OutboxAlerts::open(options).has_value());
}
