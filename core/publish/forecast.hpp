// How long this run still takes, by its own facts: recipe/forecast.hpp does the sum.
#pragma once

#include <optional>

#include "core/state.hpp"
#include "recipe/forecast.hpp"

namespace stoker::core {

// Empty: it does not train now, or its speed or its end is not known.
std::optional<recipe::Forecast> forecast_of(const RunState& run, WallTime wall);

}  // namespace stoker::core
