// When a save is asked for by itself (checkpoints.interval): at a fixed interval, or at Daly's for
// this run's own save cost and failures. Pure.
#pragma once

#include <optional>

#include "core/state.hpp"

namespace stoker::core {

// Something can tell this training to save.
bool can_save(const RunPolicy& policy);

// Between two failures: (trained + 24 h) / (failures + 1), one a day until the run shows its own.
Duration failure_interval(const RunState& run);

// The interval wanted now; empty: none is asked for, or `auto` has not seen a save yet. Never below
// checkpoints.interval_floor.
std::optional<Duration> save_interval(const RunState& run);
// The moment of the next save that is asked for by itself; empty: none is.
std::optional<Instant> interval_save_at(const RunState& run);

}  // namespace stoker::core
