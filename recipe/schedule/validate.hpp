// Judges a schedule before a step is run: pure, in milliseconds. What is judged is what a person
// can write wrong in a CSV and what a generator's bug would look like.
#pragma once

#include <cstdint>
#include <optional>

#include "recipe/schedule/schedule.hpp"

namespace stoker::recipe {

struct ScheduleLimits {
  std::optional<std::uint32_t> slots;  // chunk activations that a rank may hold at once
};

// Every stage and micro-batch has exactly one F and either one B or one I and one W, each on its
// stage's rank; no backward stands before its forward and no W before its I; the ranks do not wait
// for each other in a circle; no rank holds more activations than it may. The Error is one line
// that names the first offending operation (with FILE:LINE:COLUMN for a CSV).
Status validate(const PipelineSchedule& schedule, const ScheduleLimits& limits = {});

}  // namespace stoker::recipe
