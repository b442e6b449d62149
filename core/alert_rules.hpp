// AlertRules: when an alert leaves for its sinks: in groups, not in quiet hours, not while its
// cause is open, and to further sinks where no one acknowledges it. The decider has no use for
// them, so they are no members of AlertPolicy: they travel in it as a route to no sink, whose
// `match` holds them as text. configs/schema writes them, alerts/ reads them.
#pragma once

#include <string>
#include <vector>

#include "core/policy.hpp"

namespace stoker::core {

// Label -> values, of which one is equal: "hang|limbo"; "*" is any value that is not empty. A label
// that an alert has not got is empty.
using LabelMatch = std::map<std::string, std::string>;

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
struct GroupRule {
  std::vector<std::string> by{"run"};  // labels; "..." = all: every alert by itself
  Duration wait{};                     // how long the first of a group waits for others
  STOKER_FIELDS(GroupRule, by, wait)
};

struct AlertRules {
  GroupRule group;                // where there are no routes
  std::vector<GroupRule> groups;  // of AlertPolicy::routes, in their order
  std::vector<QuietHours> quiet_hours;
  std::vector<EscalateRule> escalate;
  std::optional<std::vector<InhibitRule>> inhibit;  // empty: the built-in ones of alerts/
  STOKER_FIELDS(AlertRules, group, groups, quiet_hours, escalate, inhibit)
};

inline constexpr const char* kRulesLabel = "rules";

inline AlertRules rules_of(const AlertPolicy& policy) {
  for (const RoutePolicy& route : policy.routes)
    if (const auto text = route.match.find(kRulesLabel);
        route.to.empty() && text != route.match.end())
      if (auto rules = from_json_text<AlertRules>(text->second, "alerts")) return std::move(*rules);
  return {};
}

// To be called once, after the last route.
inline void keep_rules(AlertPolicy& policy, const AlertRules& rules) {
  AlertRules plain;
  plain.groups.resize(rules.groups.size());
  if (!(rules == plain))
    policy.routes.push_back({{}, {{kRulesLabel, to_json_text(rules)}}, {}, 4h});
}

}  // namespace stoker::core
