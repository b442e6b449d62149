// Shorthand of the schedule tests.
#pragma once

#include "recipe/schedule/draw.hpp"
#include "recipe/schedule/generators.hpp"
#include "recipe/schedule/passes.hpp"
#include "recipe/schedule/validate.hpp"

namespace stoker::recipe::test {

inline PipelineSchedule made(ScheduleKind kind, std::uint32_t ranks, std::uint32_t micro_batches,
                             std::uint32_t chunks = 1) {
  return make_schedule({kind, ranks, chunks, micro_batches}).value();
}

inline std::vector<double> peaks(const PipelineSchedule& schedule) {
  const Timeline run = simulate(schedule, {}).value();
  std::vector<double> shares;
  for (std::size_t r = 0; r < run.peak.size(); ++r) shares.push_back(run.peak_share(r));
  return shares;
}

}  // namespace stoker::recipe::test
