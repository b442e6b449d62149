// Critical alerts that a sink refuses, acknowledgements, refreshed receivers, commands.
#include <sys/stat.h>

#include "tests/alerts/local_server.hpp"
#include "tests/alerts/outbox_site.hpp"

using namespace stoker;
using namespace stoker::alerts;
using namespace stoker::alerts::testing;

namespace {

// The first answers as `mood` says, the second is well.
struct Receivers {
  explicit Receivers(Mood mood) {
    hook.start();
    spare.start();
    hook.set(mood);
  }
  LocalServer hook, spare;
};

// `hook` is routed, `spare` is not.
core::AlertPolicy with_spare(const std::string& hook, const std::string& spare) {
  core::AlertPolicy policy = policy_of(hook, "500ms");
  policy.sinks.push_back(policy_of(spare).sinks.at(0));
  policy.sinks.back().name = "spare";
  return policy;
}

Json only_alert(const std::string& body) {
  const auto parsed = parse_json(body, "body");
  REQUIRE(parsed.has_value());
  return parsed->at("alerts").at(0);
}

core::AlertPolicy exec_policy(const std::vector<std::string>& command, const std::string& timeout) {
  core::AlertPolicy policy;
  policy.sinks = {{"run", "exec", {{"command", dump_json(Json(command))}, {"timeout", timeout}}}};
  return policy;
}

}  // namespace

TEST_CASE("fallback: a refused critical alert -> to the sinks that were not routed, and its end") {
  const Site site;
  Receivers both(Mood::Refuse);
  LocalServer &hook = both.hook, &spare = both.spare;
  const auto policy = with_spare(hook.url(), spare.url());
  const auto outbox = site.open();
  REQUIRE(outbox->accept(EffectKey("hello/1/0"), alert_of("hello/a"), policy));
  REQUIRE(outbox->wait_idle(30s));
  REQUIRE(spare.taken().size() == 1);
  CHECK(only_alert(spare.taken()[0]).at("annotations").at("instead_of") == "hook: answer 400: ok");
  auto troubles = outbox->troubles(policy);
  REQUIRE(troubles.size() == 1);
  CHECK(troubles[0].sink == "hook");
  REQUIRE(troubles[0].lost.size() == 1);
  CHECK(troubles[0].lost[0].title == "CRITICAL hello: rank 3 crashed");
  hook.set(Mood::Ok);
  REQUIRE(outbox->accept(EffectKey("hello/2/0"),
                         alert_of("hello/a", core::Severity::Critical, true), policy));
  REQUIRE(outbox->wait_idle(30s));
  REQUIRE(spare.taken().size() == 2);
  CHECK(only_alert(spare.taken()[1]).at("status") == "resolved");
  CHECK(outbox->troubles(policy).empty());  // its next success
}

TEST_CASE("fallback: a warning -> only where it was routed") {
  const Site site;
  Receivers both(Mood::Refuse);
  LocalServer &hook = both.hook, &spare = both.spare;
  const auto policy = with_spare(hook.url(), spare.url());
  const auto outbox = site.open();
  REQUIRE(
      outbox->accept(EffectKey("hello/1/0"), alert_of("hello/a", core::Severity::Warning), policy));
  REQUIRE(outbox->wait_idle(30s));
  CHECK(spare.asked() == 0);
  CHECK(outbox->troubles(policy).size() == 1);
}

TEST_CASE("fallback: a critical alert not taken for long -> to the others, and tried on") {
  const Site site;
  Receivers both(Mood::Fail);
  LocalServer &hook = both.hook, &spare = both.spare;
  OutboxOptions options = site.options();
  options.fall_back = 50ms;
  auto outbox = OutboxAlerts::open(options);
  REQUIRE(outbox.has_value());
  const auto policy = with_spare(hook.url(), spare.url());
  REQUIRE((*outbox)->accept(EffectKey("hello/1/0"), alert_of("hello/a"), policy));
  REQUIRE(becomes([&] { return spare.taken().size() == 1; }, 30s));
  CHECK(hook.taken().empty());
  hook.set(Mood::Ok);
  REQUIRE((*outbox)->wait_idle(30s));
  CHECK(hook.taken().size() == 1);
  CHECK(spare.taken().size() == 1);
}

TEST_CASE("fallback: what failed -> known after a restart") {
  const Site site;
  LocalServer hook;
  hook.start();
  hook.set(Mood::Refuse);
  const auto policy = policy_of(hook.url());
  {
    const auto outbox = site.open();
    REQUIRE(outbox->accept(EffectKey("hello/1/0"), alert_of("hello/a"), policy));
    REQUIRE(outbox->wait_idle(30s));
  }
  const auto outbox = site.open();
  REQUIRE(outbox->troubles(policy).size() == 1);
  CHECK(outbox->troubles(policy)[0].why == "answer 400: ok");
  CHECK(outbox->troubles(policy_of(hook.url(), "3s")).empty());  // configured otherwise by now
}

TEST_CASE("outbox: acknowledged -> its receivers are informed once, then no repetition") {
  const Site site;
  LocalServer server;
  server.start();
  core::AlertPolicy policy = policy_of(server.url());
  policy.routes[0].repeat = 1ns;
  const auto outbox = site.open();
  REQUIRE(outbox->accept(EffectKey("hello/1/0"), alert_of("hello/a"), policy));
  core::SendAlert acknowledged = alert_of("hello/a");
  acknowledged.labels["acknowledged_by"] = "ann";
  REQUIRE(outbox->accept(EffectKey("hello/2/0"), acknowledged, policy));
  REQUIRE(outbox->wait_idle(30s));
  REQUIRE(server.taken().size() == 2);
  const Json alert = only_alert(server.taken()[1]);
  CHECK(alert.at("annotations").at("acknowledged_by") == "ann");
  CHECK(alert.at("annotations").at("summary") == "ACKNOWLEDGED hello: rank 3 crashed");
  CHECK_FALSE(alert.at("labels").contains("acknowledged_by"));
  outbox->repeat_open({acknowledged}, policy);
  REQUIRE(outbox->wait_idle(30s));
  CHECK(server.taken().size() == 2);
}

TEST_CASE("outbox: Retry-After -> the sink's other alerts wait too") {
  const Site site;
  LocalServer server;
  server.start();
  server.set(Mood::Busy);
  const auto policy = policy_of(server.url());
  const auto outbox = site.open();
  REQUIRE(outbox->accept(EffectKey("hello/1/0"), alert_of("hello/a"), policy));
  REQUIRE(becomes([&] { return outbox->troubles(policy).size() == 1; }, 30s));
  REQUIRE(outbox->accept(EffectKey("hello/2/0"), alert_of("hello/b"), policy));
  CHECK_FALSE(becomes([&] { return server.asked() > 1; }, 300ms));
  server.set(Mood::Ok);
  REQUIRE(outbox->wait_idle(30s));
  CHECK(server.taken().size() == 2);
}

TEST_CASE("outbox: runs use one name for two sinks -> the one does not hold the other's alerts") {
  const Site site;
  Receivers both(Mood::Busy);
  LocalServer &busy = both.hook, &good = both.spare;
  const auto first = policy_of(busy.url()), second = policy_of(good.url());
  const auto outbox = site.open();
  REQUIRE(outbox->accept(EffectKey("hello/1/0"), alert_of("hello/a"), first));
  REQUIRE(becomes([&] { return outbox->troubles(first).size() == 1; }, 30s));
  REQUIRE(outbox->accept(EffectKey("other/2/0"), alert_of("other/b"), second));
  CHECK(becomes([&] { return good.taken().size() == 1; }, 30s));
}

TEST_CASE("exec: a command -> gets the document; its end is judged; it cannot run endlessly") {
  const Site site;
  const auto outbox = site.open();
  const std::string out = site.path + "/document";
  const auto results = outbox->test(exec_policy({"sh", "-c", "cat > " + out}, "10s"));
  REQUIRE(results.size() == 2);
  CHECK(results[1].ok);
  const auto document = parse_json(os::read_file(out).value_or(std::string()), "document");
  REQUIRE(document.has_value());
  CHECK(document->at("kind") == "test");
  CHECK(document->at("status") == "firing");
  const auto detail = [&](const std::vector<std::string>& command, const std::string& timeout) {
    return outbox->test(exec_policy(command, timeout)).at(1).detail;
  };
  CHECK(detail({"sh", "-c", "echo first; echo no route >&2; exit 3"}, "10s") == "exit 3: no route");
  CHECK(detail({"/no/such/program"}, "10s").find("No such file") != std::string::npos);
  CHECK(detail({"sh", "-c", "echo on my way >&2; sleep 600"}, "200ms") ==
        "the command ran longer than 200ms: on my way");
  CHECK(detail({"sh", "-c", "trap '' TERM; yes >&2"}, "200ms")
            .starts_with("the command ran longer than 200ms"));
  CHECK(detail({"sh", "-c", "sleep 5 & exit 0"}, "10s") == "delivered");
}

TEST_CASE("exec: exit 65 -> refused; the environment holds nothing of the daemon's own") {
  const Site site;
  ::setenv("STOKER_TEST_SECRET", "x", 1);
  const auto outbox = site.open();
  const std::string out = site.path + "/environment";
  auto policy = exec_policy({"sh", "-c", "env > " + out + "; exit 65"}, "10s");
  REQUIRE(outbox->accept(EffectKey("hello/1/0"), alert_of("hello/a"), policy));
  REQUIRE(outbox->wait_idle(30s));
  CHECK(outbox->troubles(policy).at(0).lost.size() == 1);
  const std::string environment = os::read_file(out).value_or(std::string());
  CHECK(environment.find("PATH=") != std::string::npos);
  CHECK(environment.find("STOKER_TEST_SECRET") == std::string::npos);
}

TEST_CASE("alertmanager: an open alert -> refreshed without a file each; not while one waits") {
  const Site site;
  LocalServer server;
  server.start();
  core::AlertPolicy policy;
  const std::string url = server.url();
  policy.sinks = {{"am", "alertmanager", {{"url", url}, {"timeout", "500ms"}}}};
  policy.routes = {{core::Severity::Warning, {}, {"am"}, 1ns, {}}};
  const auto outbox = site.open();
  REQUIRE(outbox->accept(EffectKey("hello/1/0"), alert_of("hello/a"), policy));
  REQUIRE(outbox->wait_idle(30s));
  REQUIRE(server.taken().size() == 1);
  const auto files = os::list_directory(site.path + "/outbox");
  core::SendAlert acknowledged = alert_of("hello/a");
  acknowledged.labels["acknowledged_by"] = "ann";  // Alertmanager would call it resolved
  outbox->repeat_open({acknowledged}, policy);
  REQUIRE(outbox->wait_idle(30s));
  REQUIRE(server.taken().size() == 2);
  CHECK(os::list_directory(site.path + "/outbox")->size() == files->size());
  server.set(Mood::Hang);
  outbox->repeat_open({acknowledged}, policy);
  outbox->repeat_open({acknowledged}, policy);
  REQUIRE(outbox->wait_idle(30s));
  CHECK(server.asked() == 3);
  CHECK(outbox->troubles(policy).size() == 1);
}
