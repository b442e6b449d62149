// Warm standby (wire/standby.hpp): an initialised process waits for the order to become a rank.
#pragma once

#include <optional>

#include "common/result.hpp"

namespace stoker::train {

// The descriptor from the environment; none: start at once.
std::optional<int> standby_descriptor();

enum class StandbyOutcome { Ordered, Dismissed };
// Says that we are ready, waits for the order and takes its environment as ours.
Result<StandbyOutcome> wait_for_order(int descriptor);

}  // namespace stoker::train
