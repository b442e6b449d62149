// AlertPolicy: which sinks there are, which alert goes to which of them, and when it leaves: in
// groups, not in quiet hours, not while its cause is open, and to further sinks where no one
// acknowledges it. Part of RunPolicy: configs/schema writes it, alerts/ acts on it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"

namespace stoker::core {
enum class Severity { Info, Warning, Critical };
}

template <>
struct stoker::EnumNames<stoker::core::Severity> {
  static constexpr std::array names{"info", "warning", "critical"};
};

namespace stoker::core {

// Label -> values, of which one is equal: "hang|limbo"; "*" is any value that is not empty. A label
// that an alert has not got is empty.
using LabelMatch = std::map<std::string, std::string>;

struct SinkPolicy {  // one entry of alerts.sinks; options beyond `kind` as text, a list as a JSON
                     // array of texts
  std::string name, kind;
  std::map<std::string, std::string> options;
  STOKER_FIELDS(SinkPolicy, name, kind, options)
};

struct GroupRule {
  std::vector<std::string> by{"run"};  // labels; "..." = all: every alert by itself
  Duration wait{};                     // how long the first of a group waits for others
  STOKER_FIELDS(GroupRule, by, wait)
};
struct RoutePolicy {
  std::optional<Severity> severity;  // this severity and above
  LabelMatch match;
  std::vector<std::string> to;  // names of sinks
  Duration repeat = 4h;
  GroupRule group;
  STOKER_FIELDS(RoutePolicy, severity, match, to, repeat, group)
};

struct QuietHours {                 // what is not critical waits from `from` until `to`
  std::uint32_t from = 0, to = 0;   // minutes of the day; `to` may be on the next one
  std::vector<std::uint32_t> days;  // on which it begins, 0 = Sunday; empty: all
  bool utc = false;                 // else the daemon's time zone
  STOKER_FIELDS(QuietHours, from, to, days, utc)
};
struct EscalateRule {  // an alert that is not acknowledged so long goes to further sinks
  Duration after = 15min;
  std::vector<std::string> to;
  Severity severity = Severity::Critical;  // and above
  STOKER_FIELDS(EscalateRule, after, to, severity)
};
struct InhibitRule {  // while an alert of `source` is open, those of `target` wait
  LabelMatch source, target;
  std::vector<std::string> equal;  // labels that both have with one value
  STOKER_FIELDS(InhibitRule, source, target, equal)
};

struct AlertRules {  // what holds an alert back, and where it goes when no one acknowledges it
  std::vector<QuietHours> quiet_hours;
  std::vector<EscalateRule> escalate;
  std::optional<std::vector<InhibitRule>> inhibit;  // empty: the built-in ones of alerts/
  STOKER_FIELDS(AlertRules, quiet_hours, escalate, inhibit)
};

// Once a week, to these sinks, past routes and rules.
struct DigestRule {
  std::uint32_t day = 1;      // 0 = Sunday
  std::uint32_t at = 9 * 60;  // minutes of that day
  bool utc = false;           // else the daemon's time zone
  std::vector<std::string> to;
  STOKER_FIELDS(DigestRule, day, at, utc, to)
};

struct AlertPolicy {
  std::vector<SinkPolicy> sinks;
  std::vector<RoutePolicy> routes;
  GroupRule group;  // where there are no routes
  AlertRules rules;
  std::optional<DigestRule> digest;
  std::string page;  // address at which people open the page; "" = messages name none
  std::string dead_man_url_file;
  Duration dead_man_every = 5min;
  STOKER_FIELDS(AlertPolicy, sinks, routes, group, rules, digest, page, dead_man_url_file,
                dead_man_every)
};

}  // namespace stoker::core
