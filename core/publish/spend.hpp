// Spend: the GPU hours of a run's allocations against budget.gpu_hours, and whether what the
// forecast expects still fits. At 80 % and at 100 % an alert is raised, once each; nothing stops.
#pragma once

#include <optional>
#include <string>

#include "core/turn.hpp"

namespace stoker::core {

struct Spend {
  double gpu_hours = 0;        // so far
  double budget = 0;           // 0 = there is no budget
  std::optional<double> left;  // expected until the end; empty: there is no forecast

  // Empty: no budget, or no forecast.
  [[nodiscard]] std::optional<bool> suffices() const;
};

// Empty: scheduler.gpus_per_node is not given.
std::optional<Spend> spend_of(const RunState& run, WallTime wall);

// "160,012 of 200,000 GPU hours (80.0 %); the forecast needs 30,000 more: it suffices".
std::string spend_text(const Spend& spend);

// After each event of a run: the alert of a level that is reached, its end where the budget grew.
void watch_spend(Turn& turn);

}  // namespace stoker::core
