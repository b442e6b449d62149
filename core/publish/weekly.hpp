// The weekly digest: what a run did since the last one: goodput by cause, incidents, nodes, GPU
// hours against the budget, forecast. Pure: when an hour of the week has come is computed from the
// time zone that the caller gives; the hour of the last digest is part of the state, so that a
// restarted daemon sends none twice and makes up for one that it missed.
#pragma once

#include <optional>
#include <string>

#include "core/alerts/alert_policy.hpp"
#include "core/state.hpp"

namespace stoker::core {

// The last hour of the rule that is not after `wall`; `offset`: local time minus UTC at `wall`.
WallTime last_due(const DigestRule& rule, WallTime wall, Duration offset);

// The hour for which a WeeklyDue is wanted; empty: there was one. That of a run which is new, or
// whose rule is, only marks where its first week begins.
std::optional<WallTime> weekly_due(const RunState& run, WallTime wall, Duration offset);

struct WeeklyText {
  std::string summary;  // one line
  std::string outlook;  // where the run is, and when it will be finished
  std::string report;   // several lines
};
// Of the time since the last digest, until `wall`.
WeeklyText weekly_text(const SiteState& site, const RunState& run, WallTime wall);

}  // namespace stoker::core
