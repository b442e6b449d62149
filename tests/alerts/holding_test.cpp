// What is held back, in virtual time.
#include "alerts/holding.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::alerts;

namespace {

WallTime at(const char* text) {
  return parse_rfc3339(text).value();
}

const Zone kUtc = [](WallTime) { return Duration::zero(); };
// Summer time until 2022-10-30T01:00:00Z, then winter time: Paris.
const Zone kParis = [](WallTime t) -> Duration { return t < at("2022-10-30T01:00:00Z") ? 2h : 1h; };

RenderedAlert alert_of(const std::string& kind, core::Severity severity,
                       const std::string& run = "tr11", const std::string& subject = "") {
  core::SendAlert alert;
  alert.id = run + "/" + kind + "/1";
  alert.severity = severity;
  alert.alert_kind = kind;
  alert.summary = kind;
  alert.labels = {{"run", run}};
  if (!subject.empty()) alert.labels["subject"] = subject;
  return render(EffectKey(alert.id), alert, at("2022-05-01T12:00:00Z"), at("2022-05-01T12:00:00Z"));
}

core::QuietHours night(std::vector<std::uint32_t> days = {}, bool utc = true) {
  return {22 * 60, 7 * 60, std::move(days), utc};
}

OpenCause cause_of(const RenderedAlert& alert, std::set<std::string> sinks) {
  return {alert.id, alert.labels, std::move(sinks), false};
}

std::optional<Hold> held(const RenderedAlert& alert, const core::AlertRules& rules,
                         const std::vector<OpenCause>& causes, const char* now,
                         const char* ready = "2022-05-01T00:00:00Z") {
  return hold_of(alert, "mail", rules, causes, {at(now), at(ready)}, kUtc);
}

}  // namespace

TEST_CASE("quiet hours: over midnight -> until the morning; at their edges in and out") {
  const std::vector hours{night()};
  CHECK_FALSE(quiet_until(hours, at("2022-05-01T21:59:59Z"), kUtc));
  CHECK(quiet_until(hours, at("2022-05-01T22:00:00Z"), kUtc) == at("2022-05-02T07:00:00Z"));
  CHECK(quiet_until(hours, at("2022-05-02T06:59:59Z"), kUtc) == at("2022-05-02T07:00:00Z"));
  CHECK_FALSE(quiet_until(hours, at("2022-05-02T07:00:00Z"), kUtc));
  CHECK_FALSE(quiet_until({}, at("2022-05-02T03:00:00Z"), kUtc));
}

TEST_CASE("quiet hours: days -> those on which they begin; windows that touch -> one end") {
  const std::vector friday{night({5})};  // 2022-05-06 is a Friday
  CHECK(quiet_until(friday, at("2022-05-06T23:00:00Z"), kUtc) == at("2022-05-07T07:00:00Z"));
  CHECK(quiet_until(friday, at("2022-05-07T06:00:00Z"), kUtc) == at("2022-05-07T07:00:00Z"));
  CHECK_FALSE(quiet_until(friday, at("2022-05-07T23:00:00Z"), kUtc));
  CHECK_FALSE(quiet_until(friday, at("2022-05-06T03:00:00Z"), kUtc));
  std::vector<core::QuietHours> weekend{night(), {0, 24 * 60, {6, 0}, true}};
  CHECK(quiet_until(weekend, at("2022-05-06T23:00:00Z"), kUtc) == at("2022-05-09T07:00:00Z"));
}

TEST_CASE("quiet hours: in local time, also where the clocks change") {
  const std::vector hours{night({}, false)};
  CHECK(quiet_until(hours, at("2022-10-28T20:00:00Z"), kParis) == at("2022-10-29T05:00:00Z"));
  CHECK_FALSE(quiet_until(hours, at("2022-10-28T19:59:00Z"), kParis));
  // The night has an hour more: checked again at 05:00Z, it ends at 06:00Z.
  CHECK(quiet_until(hours, at("2022-10-30T05:00:00Z"), kParis) == at("2022-10-30T06:00:00Z"));
}

TEST_CASE("hold: quiet hours -> a warning waits, a critical alert never does") {
  core::AlertRules rules;
  rules.quiet_hours = {night()};
  const char* night_time = "2022-05-01T23:00:00Z";
  const auto warning = held(alert_of("slow", core::Severity::Warning), rules, {}, night_time);
  REQUIRE(warning);
  CHECK(*warning == Hold{"quiet hours", at("2022-05-02T07:00:00Z")});
  CHECK_FALSE(held(alert_of("hang", core::Severity::Critical), rules, {}, night_time));
  CHECK_FALSE(held(alert_of("slow", core::Severity::Warning), rules, {}, "2022-05-02T07:00:00Z"));
}

TEST_CASE("hold: group_wait -> until it is over; an acknowledgement and a repetition do not wait") {
  RenderedAlert alert = alert_of("hang", core::Severity::Critical);
  const char* ready = "2022-05-01T12:00:30Z";
  CHECK(held(alert, {}, {}, "2022-05-01T12:00:00Z", ready) == Hold{kGroupWait, at(ready)});
  CHECK_FALSE(held(alert, {}, {}, ready, ready));
  alert.repeated = true;
  CHECK_FALSE(held(alert, {}, {}, "2022-05-01T12:00:00Z", ready));
  alert.repeated = false;
  alert.acknowledged_by = "alice";
  CHECK_FALSE(held(alert, {}, {}, "2022-05-01T12:00:00Z", ready));
}

TEST_CASE("hold: built-in inhibition -> causes hold back what they explain, where they are known") {
  const auto fault = alert_of("node_fault", core::Severity::Critical, "tr11", "n03");
  const auto hang = alert_of("hang", core::Severity::Critical);
  const char* now = "2022-05-01T12:00:00Z";
  CHECK(held(hang, {}, {cause_of(fault, {"mail"})}, now) ==
        Hold{"node_fault is open (tr11/node_fault/1)", {}});
  CHECK_FALSE(held(hang, {}, {cause_of(fault, {"pager"})}, now));  // mail knows no cause
  CHECK_FALSE(held(alert_of("hang", core::Severity::Critical, "other"), {},
                   {cause_of(fault, {"mail"})}, now));
  CHECK_FALSE(held(fault, {}, {cause_of(fault, {"mail"})}, now));  // not by itself
  CHECK_FALSE(held(hang, {}, {cause_of(alert_of("node_fault", core::Severity::Warning), {"mail"})},
                   now));  // a slow node explains no hang
  const auto blind = alert_of("scheduler_blind", core::Severity::Warning, "");
  CHECK(held(alert_of("submit_failed", core::Severity::Critical), {}, {cause_of(blind, {"mail"})},
             now));
  const auto full = alert_of("disk_full", core::Severity::Critical, "tr11", "/gpfs");
  CHECK(
      held(alert_of("save_failed", core::Severity::Critical), {}, {cause_of(full, {"mail"})}, now));
  CHECK_FALSE(
      held(alert_of("held", core::Severity::Critical), {}, {cause_of(full, {"mail"})}, now));
  RenderedAlert over = hang;
  over.resolved = true;
  CHECK_FALSE(held(over, {}, {cause_of(fault, {"mail"})}, now));
}

TEST_CASE("hold: rules of one's own -> instead of the built-in ones; none -> no inhibition") {
  const auto fault = alert_of("node_fault", core::Severity::Critical, "tr11", "n03");
  const auto hang = alert_of("hang", core::Severity::Critical);
  const char* now = "2022-05-01T12:00:00Z";
  core::AlertRules rules;
  rules.inhibit.emplace();
  CHECK_FALSE(held(hang, rules, {cause_of(fault, {"mail"})}, now));
  rules.inhibit = {{{{"kind", "slow|data_order"}}, {{"kind", "*"}}, {"run"}}};
  const auto slow = alert_of("slow", core::Severity::Warning);
  CHECK(held(hang, rules, {cause_of(slow, {"mail"})}, now));
  CHECK_FALSE(held(hang, rules, {cause_of(fault, {"mail"})}, now));
}

TEST_CASE("escalation: not acknowledged in time -> the next sink, step by step, once each") {
  core::AlertRules rules;
  rules.escalate = {{15min, {"pager"}}, {1h, {"boss", "pager"}}};
  RenderedAlert hang = alert_of("hang", core::Severity::Critical);
  std::map<std::string, WallTime> first{{"mail", at("2022-05-01T12:00:00Z")}};
  CHECK_FALSE(escalation_of(hang, first, rules, at("2022-05-01T12:14:59Z")));
  const auto step = escalation_of(hang, first, rules, at("2022-05-01T12:15:00Z"));
  REQUIRE(step);
  CHECK(step->sinks == std::vector<std::string>{"pager"});
  CHECK(step->why == "not acknowledged within 15min, sent to mail before");
  first["pager"] = at("2022-05-01T12:15:00Z");
  CHECK_FALSE(escalation_of(hang, first, rules, at("2022-05-01T12:59:00Z")));
  const auto last = escalation_of(hang, first, rules, at("2022-05-01T13:00:00Z"));
  REQUIRE(last);
  CHECK(last->sinks == std::vector<std::string>{"boss"});
  CHECK_FALSE(escalation_of(alert_of("slow", core::Severity::Warning), first, rules,
                            at("2022-05-03T12:00:00Z")));
  CHECK_FALSE(escalation_of(hang, {}, rules, at("2022-05-03T12:00:00Z")));  // no sink has it yet
  hang.acknowledged_by = "alice";
  CHECK_FALSE(escalation_of(hang, first, rules, at("2022-05-03T12:00:00Z")));
}
