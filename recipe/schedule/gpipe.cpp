// GPipe (Huang et al. 2018): all forwards, then all backwards. Simple, and the activations of every
// micro-batch are alive at once. Backwards run in the order of the forwards.
#include "recipe/schedule/generators.hpp"

namespace stoker::recipe {

PipelineSchedule gpipe(std::uint32_t ranks, std::uint32_t micro_batches) {
  PipelineSchedule schedule = round_robin(ranks, ranks, micro_batches);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    for (std::uint32_t m = 0; m < micro_batches; ++m)
      schedule.ranks[r].push_back({OpKind::Forward, r, m});
    for (std::uint32_t m = 0; m < micro_batches; ++m)
      schedule.ranks[r].push_back({OpKind::Backward, r, m});
  }
  return schedule;
}

}  // namespace stoker::recipe
