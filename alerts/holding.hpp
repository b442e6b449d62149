// Holding back: whether an alert waits before a sink receives it, by which rule and until when.
// Pure: time and time zone are arguments. In this order: a cause that the sink knows is open
// (inhibition), quiet hours, others of its group. A critical alert never waits for quiet hours. An
// acknowledgement never waits for a group. To add a rule: its values in
// core/alerts/alert_policy.hpp, its line in hold_of(), its keys in
// configs/schema/run_sections_alerts.cpp.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alerts/route.hpp"

namespace stoker::alerts {

using Zone = std::function<Duration(WallTime)>;  // local time minus UTC

// An open alert that may be the cause of others.
struct OpenCause {
  std::string id;
  std::map<std::string, std::string> labels;
  std::set<std::string> sinks;  // that know of it
  bool everywhere = false;      // a person silenced it: known without a message
};

struct Hold {
  std::string rule;               // "quiet hours", "scheduler_blind is open", …
  std::optional<WallTime> until;  // empty: until the cause is over
  friend bool operator==(const Hold&, const Hold&) = default;
};
inline constexpr const char* kGroupWait = "group_wait";  // Hold::rule

// A failure of a file system explains what its run does not do; a node's fault explains hangs,
// timeouts and crashes of its run; a scheduler that gives no answers explains what the chain of
// jobs lacks.
const std::vector<core::InhibitRule>& built_in_inhibitions();

// End of the quiet hours that hold at `now`, with those that follow at once; empty: none do.
std::optional<WallTime> quiet_until(const std::vector<core::QuietHours>& hours, WallTime now,
                                    const Zone& zone);
struct HoldTimes {
  WallTime now;
  WallTime ready;  // when the alert's group has waited long enough
};
std::optional<Hold> hold_of(const RenderedAlert& alert, const std::string& sink,
                            const core::AlertRules& rules, const std::vector<OpenCause>& causes,
                            HoldTimes times, const Zone& zone);

// Sinks that an open alert goes to because no one acknowledged it. `first`: when which sink had it.
struct Escalation {
  std::vector<std::string> sinks;
  std::string why;  // "not acknowledged within 15min by chat, mail"
};
std::optional<Escalation> escalation_of(const RenderedAlert& alert,
                                        const std::map<std::string, WallTime>& first,
                                        const core::AlertRules& rules, WallTime now);

}  // namespace stoker::alerts
