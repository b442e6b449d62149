// Time limits that more than one process relies on.
#pragma once

#include "common/time.hpp"

namespace stoker::wire {

// How long the lead of a finished run waits for copies of its checkpoints.
inline constexpr Duration kLastCopies = 10min;
// How long the decider waits for a task to end by itself after the end of its run.
inline constexpr Duration kLeftOver = 2min;

}  // namespace stoker::wire
