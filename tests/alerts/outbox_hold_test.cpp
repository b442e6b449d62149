// What rules hold back, in the outbox: with a clock of the test's own, over restarts and kill -9.
#include <atomic>

#include "core/alerts/alert_policy.hpp"
#include "tests/alerts/local_server.hpp"
#include "tests/alerts/outbox_site.hpp"

using namespace stoker;
using namespace stoker::alerts;
using namespace stoker::alerts::testing;

namespace {

class HoldSite : public Site {
 public:
  enum class Receivers { Started, StartLater };  // later: they have threads, and a test forks first
  explicit HoldSite(Receivers receivers = Receivers::Started) {
    if (receivers == Receivers::Started) start_receivers();
  }
  void start_receivers() {
    hook.start();
    spare.start();
  }
  std::unique_ptr<OutboxAlerts> start() {
    OutboxOptions o = options();
    o.now = [this] {
      return parse_rfc3339("2022-05-01T12:00:00Z").value() + Duration(passed.load());
    };
    o.zone = [](WallTime) { return Duration::zero(); };
    auto outbox = OutboxAlerts::open(std::move(o));
    REQUIRE(outbox.has_value());
    return std::move(*outbox);
  }
  [[nodiscard]] core::AlertPolicy policy(const core::AlertRules& rules) const {
    core::AlertPolicy p = policy_of(hook.url());
    p.sinks.push_back({"spare", "webhook", {{"url", spare.url()}}});
    p.rules = rules;
    return p;
  }
  [[nodiscard]] core::AlertPolicy grouped(Duration wait) const {
    core::AlertPolicy p = policy({});
    for (core::RoutePolicy& route : p.routes) route.group.wait = wait;
    return p;
  }
  // Lets the time pass, and the outbox look at it.
  void wait(OutboxAlerts& outbox, Duration time, const std::vector<core::SendAlert>& open,
            const core::AlertPolicy& p) {
    passed += time.count();
    outbox.note_open(open, {});
    outbox.repeat_open(open, p);
    settle(outbox);
  }
  // All that may leave has left: it read the clock once more, and nothing waits.
  static void settle(OutboxAlerts& outbox) {
    std::this_thread::sleep_for(30ms);
    REQUIRE(outbox.wait_idle(5s));
  }
  [[nodiscard]] static Json alerts_in(const std::string& body) {
    return parse_json(body, "body").value().at("alerts");
  }

  LocalServer hook, spare;
  std::atomic<std::int64_t> passed{0};
};

core::AlertRules at_night(std::uint32_t from, std::uint32_t to) {
  core::AlertRules rules;
  rules.quiet_hours = {{from * 60, to * 60, {}, true}};
  return rules;
}

core::SendAlert kind_of(const std::string& kind, core::Severity severity, bool resolved = false) {
  core::SendAlert alert = alert_of("hello/" + kind + "/1", severity, resolved);
  alert.alert_kind = kind;
  alert.summary = kind;
  return alert;
}

constexpr auto kWarning = core::Severity::Warning;
constexpr auto kCritical = core::Severity::Critical;

}  // namespace

TEST_CASE("group_wait: alerts of a group -> one message, the gravest first; others by themselves") {
  HoldSite site;
  const auto policy = site.grouped(30s);
  const auto outbox = site.start();
  REQUIRE(outbox->accept(EffectKey("1"), kind_of("slow", kWarning), policy));
  REQUIRE(outbox->accept(EffectKey("2"), kind_of("save_failed", kCritical), policy));
  core::SendAlert other = alert_of("other/x");
  other.labels["run"] = "other";
  REQUIRE(outbox->accept(EffectKey("3"), other, policy));
  HoldSite::settle(*outbox);
  CHECK(site.hook.taken().empty());
  REQUIRE(outbox->held().size() == 3);
  CHECK(outbox->held()[0].hold.rule == kGroupWait);
  CHECK(count_of(site.pulse(), "***ALERT") == 3);  // the pulse log waits for nothing
  site.wait(*outbox, 30s, {}, policy);
  REQUIRE(site.hook.taken().size() == 2);
  CHECK(outbox->held().empty());
  const std::string both = site.hook.taken()[0].find("slow") != std::string::npos
                               ? site.hook.taken()[0]
                               : site.hook.taken()[1];
  REQUIRE(HoldSite::alerts_in(both).size() == 2);
  CHECK(HoldSite::alerts_in(both)[0].at("labels").at("kind") == "save_failed");
  CHECK(HoldSite::alerts_in(both)[1].at("labels").at("kind") == "slow");
  CHECK(both.find("(+1 more)") != std::string::npos);
  CHECK(both.find("In the same message:\\n- WARNING hello: slow (since 2022-05-01T12:00:00Z, "
                  "hello/slow/1)") != std::string::npos);
}

TEST_CASE("group_wait: resolved in time -> no sink receives it; later -> it receives both") {
  HoldSite site;
  const auto policy = site.grouped(30s);
  const auto outbox = site.start();
  REQUIRE(outbox->accept(EffectKey("1"), kind_of("slow", kWarning), policy));
  REQUIRE(outbox->accept(EffectKey("2"), kind_of("slow", kWarning, true), policy));
  site.wait(*outbox, 1h, {}, policy);
  CHECK(site.hook.taken().empty());
  CHECK(outbox->held().empty());
  REQUIRE(outbox->accept(EffectKey("3"), kind_of("hang", kWarning), policy));
  site.wait(*outbox, 31s, {}, policy);
  CHECK(site.hook.taken().size() == 1);
  REQUIRE(outbox->accept(EffectKey("4"), kind_of("hang", kWarning, true), policy));
  site.wait(*outbox, 31s, {}, policy);
  REQUIRE(site.hook.taken().size() == 2);
  CHECK(site.hook.taken()[1].find("\"status\":\"resolved\"") != std::string::npos);
}

TEST_CASE("quiet hours: a warning -> held over a restart until the morning, a graver one leaves") {
  HoldSite site;
  const auto policy = site.policy(at_night(11, 18));  // it is 12:00
  {
    const auto outbox = site.start();
    REQUIRE(outbox->accept(EffectKey("1"), kind_of("slow", kWarning), policy));
    REQUIRE(outbox->accept(EffectKey("2"), kind_of("hang", kWarning), policy));
    REQUIRE(outbox->accept(EffectKey("3"), kind_of("disk_full", kCritical), policy));
    HoldSite::settle(*outbox);
    REQUIRE(outbox->held().size() == 2);
    CHECK(outbox->held()[0].hold.rule == "quiet hours");
  }
  const auto outbox = site.start();
  HoldSite::settle(*outbox);
  CHECK(site.hook.taken().size() == 1);  // the critical one
  CHECK(outbox->held().size() == 2);
  REQUIRE(outbox->accept(EffectKey("4"), kind_of("hang", kCritical), site.policy({})));
  HoldSite::settle(*outbox);
  CHECK(site.hook.taken().size() == 1);  // disk_full is open, and explains it
  site.wait(*outbox, 6h, {}, policy);
  REQUIRE(site.hook.taken().size() == 2);
  CHECK(site.hook.taken()[1].find("slow") != std::string::npos);
}

TEST_CASE("quiet hours: a weekly digest -> leaves at its hour, once, also after a restart") {
  HoldSite site;
  auto policy = site.policy(at_night(11, 18));
  policy.digest = core::DigestRule{0, 0, true, {policy.sinks.front().name}};
  for (int start = 0; start < 2; ++start) {
    const auto outbox = site.start();
    REQUIRE(outbox->accept(EffectKey("1"), kind_of("weekly_digest", core::Severity::Info), policy));
    HoldSite::settle(*outbox);
    CHECK(outbox->held().empty());
    CHECK(site.hook.taken().size() == 1);
  }
}

TEST_CASE("quiet hours: a warning that becomes critical -> leaves at once, once") {
  HoldSite site;
  const auto policy = site.policy(at_night(11, 18));
  const auto outbox = site.start();
  REQUIRE(outbox->accept(EffectKey("1"), kind_of("slow", kWarning), policy));
  REQUIRE(outbox->accept(EffectKey("2"), kind_of("slow", kCritical), policy));
  site.wait(*outbox, 7h, {}, policy);
  CHECK(site.hook.taken().size() == 1);
}

TEST_CASE("escalation: no acknowledgement in 15 min, over a restart -> the next sink, once") {
  HoldSite site;
  core::AlertRules rules;
  rules.escalate = {{15min, {"spare"}}};
  const auto policy = site.policy(rules);
  const std::vector open{kind_of("held", kCritical)};
  {
    const auto outbox = site.start();
    REQUIRE(outbox->accept(EffectKey("1"), open[0], policy));
    site.wait(*outbox, 14min, open, policy);
    CHECK(site.spare.taken().empty());
  }
  const auto outbox = site.start();
  site.wait(*outbox, 2min, open, policy);
  REQUIRE(site.spare.taken().size() == 1);
  CHECK(site.spare.taken()[0].find(
            "Escalated: not acknowledged within 15min, sent to hook before") != std::string::npos);
  site.wait(*outbox, 20min, open, policy);
  CHECK(site.spare.taken().size() == 1);
  CHECK(site.hook.taken().size() == 1);
  REQUIRE(outbox->accept(EffectKey("2"), kind_of("held", kCritical, true), policy));
  HoldSite::settle(*outbox);
  CHECK(site.spare.taken().size() == 2);  // it receives the end too
}

TEST_CASE("escalation: acknowledged in time -> none") {
  HoldSite site;
  core::AlertRules rules;
  rules.escalate = {{15min, {"spare"}}};
  const auto policy = site.policy(rules);
  core::SendAlert alert = kind_of("held", kCritical);
  const auto outbox = site.start();
  REQUIRE(outbox->accept(EffectKey("1"), alert, policy));
  alert.labels["acknowledged_by"] = "alice";
  REQUIRE(outbox->accept(EffectKey("2"), alert, policy));
  site.wait(*outbox, 1h, {alert}, policy);
  CHECK(site.spare.taken().empty());
  CHECK(site.hook.taken().size() == 2);
}

TEST_CASE("inhibition: a node's fault within the group's wait -> its hang waits for its end") {
  HoldSite site;
  const auto policy = site.grouped(30s);
  const auto outbox = site.start();
  const auto hang = kind_of("hang", kCritical), fault = kind_of("node_fault", kCritical);
  REQUIRE(outbox->accept(EffectKey("1"), hang, policy));
  site.wait(*outbox, 5s, {hang}, policy);
  REQUIRE(outbox->accept(EffectKey("2"), fault, policy));
  site.wait(*outbox, 40s, {hang, fault}, policy);
  REQUIRE(site.hook.taken().size() == 1);
  CHECK(HoldSite::alerts_in(site.hook.taken()[0]).size() == 1);
  CHECK(HoldSite::alerts_in(site.hook.taken()[0])[0].at("labels").at("kind") == "node_fault");
  REQUIRE(outbox->held().size() == 1);
  CHECK(outbox->held()[0].hold.rule == "node_fault is open (hello/node_fault/1)");
  CHECK_FALSE(outbox->held()[0].hold.until);
  REQUIRE(outbox->accept(EffectKey("3"), kind_of("node_fault", kCritical, true), policy));
  site.wait(*outbox, 1min, {hang}, policy);
  CHECK(site.hook.taken().size() == 3);  // the fault is over, the hang is not
  CHECK(outbox->held().empty());
}

TEST_CASE(
    "inhibition: a cause that the sink has not received (quiet hours) -> holds nothing back") {
  HoldSite site;
  const auto policy = site.policy(at_night(11, 18));  // it is 12:00
  const auto outbox = site.start();
  REQUIRE(outbox->accept(EffectKey("1"), kind_of("node_fault", kWarning), policy));
  REQUIRE(outbox->accept(EffectKey("2"), kind_of("hang", kCritical), policy));
  HoldSite::settle(*outbox);
  REQUIRE(site.hook.taken().size() == 1);
  CHECK(site.hook.taken()[0].find("hang") != std::string::npos);
  CHECK(outbox->held().size() == 1);
}

TEST_CASE("inhibition: a cause that is no longer open, its end silenced -> holds nothing back") {
  HoldSite site;
  const auto policy = site.policy({});
  const auto outbox = site.start();
  const auto hang = kind_of("hang", kCritical), fault = kind_of("node_fault", kCritical);
  REQUIRE(outbox->accept(EffectKey("1"), fault, policy));
  REQUIRE(outbox->accept(EffectKey("2"), hang, policy));
  site.wait(*outbox, 2min, {hang, fault}, policy);
  CHECK(site.hook.taken().size() == 1);
  site.wait(*outbox, 2min, {hang}, policy);
  CHECK(site.hook.taken().size() == 2);
}

TEST_CASE("silence: an alert that it kept from leaving -> leaves when it is over") {
  HoldSite site;
  const auto policy = site.policy({});
  const std::vector open{kind_of("slow", kWarning)};
  const auto outbox = site.start();
  site.wait(*outbox, 1s, open, policy);
  CHECK(site.hook.taken().empty());  // its accept() may be under way
  site.wait(*outbox, 2min, open, policy);
  site.wait(*outbox, 2min, open, policy);
  CHECK(site.hook.taken().size() == 1);
}

TEST_CASE("group_wait: kill -9 while alerts are held -> they leave after it") {
  HoldSite site(HoldSite::Receivers::StartLater);
  const auto policy = site.grouped(30s);
  constexpr int kRounds = 5;
  for (int round = 0; round < kRounds; ++round)
    accept_and_be_killed([&] {
      auto outbox = site.start();
      const std::string id = "hello/alert-" + std::to_string(round);
      const bool accepted = outbox->accept(EffectKey(id + "/0"), alert_of(id), policy).has_value();
      return accepted ? std::move(outbox) : nullptr;
    });
  site.start_receivers();
  const auto outbox = site.start();
  HoldSite::settle(*outbox);
  CHECK(site.hook.taken().empty());
  site.wait(*outbox, 31s, {}, policy);
  REQUIRE(site.hook.taken().size() == 1);
  CHECK(HoldSite::alerts_in(site.hook.taken()[0]).size() == kRounds);
}
