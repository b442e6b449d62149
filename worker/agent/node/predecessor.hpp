// The generations that train or trained before ours. A file cannot stop a late writer, so a start
// looks whether one of them lives: a lead's last report is a goodbye once every rank is gone;
// without one, what its agents write grows as long as they live. Clocks are our own.
#pragma once

#include <optional>
#include <string>

#include "worker/agent/storage/claim.hpp"

namespace stoker::agent {

// A job of an older submission (tokens are <run>-<order number>-<random hex>) than the one that the
// newest generation came from, and that one lives: it was delayed, its successor owns the run.
// Empty: it may start.
std::optional<std::string> why_delayed(const RunContext& context);

enum class Predecessors {
  Gone,       // said goodbye, or silent for a few seconds
  Heard,      // still heard after `limit`: nothing may start
  ToldToEnd,  // a signal came, or a kill or stop switch lies in the run directory
};
// Waits for the generations before, so that two never train at once and their last save counts.
// stderr says what is waited for.
Predecessors await_predecessors(const RunContext& context, Duration limit);

}  // namespace stoker::agent
