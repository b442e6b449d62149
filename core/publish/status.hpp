// What the daemon publishes: pure views of the state. `now` and `wall` are the moment of
// publishing.
#pragma once

#include <vector>

#include "core/engine/journal.hpp"
#include "core/nodes/node_view.hpp"
#include "core/state.hpp"
#include "wire/status.hpp"

namespace stoker::core {

wire::StatusDocument status_of(const SiteState& state, const RunState& run, Instant now,
                               WallTime wall);
// Lays the newest heartbeat over what the last journalled digest said. `age`: since it was read. A
// beat of another attempt changes nothing.
void lay_over(wire::StatusDocument& doc, const wire::Beat& beat, Duration age);
// The open alerts of a run or (empty name) of the site itself, newest first.
std::vector<wire::StatusAlert> alerts_of(const SiteState& state, const RunName& run);
wire::PublishedEvent published_event(const JournalRow& row);

// "scheduler_blind" "rival" "suspended" "paused" "degraded" "disk_full" "daemon_away", in this
// order.
std::vector<std::string> conditions_of(const SiteState& state, const RunState& run);

}  // namespace stoker::core
