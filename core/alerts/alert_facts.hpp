// What an alert knows about its run beside its own sentence: what the failure costs, how the run
// stands, and its recent losses. Written into the alert when it is sent, so that each receiver has
// the same figures.
#pragma once

#include "core/decision.hpp"
#include "core/state.hpp"

namespace stoker::core {

void add_facts(SendAlert& alert, const RunState& run, WallTime wall);
// Of all alerts of a decision about one run, after its state has changed.
void add_facts(Decision& decision, const RunState& run, WallTime wall);

}  // namespace stoker::core
