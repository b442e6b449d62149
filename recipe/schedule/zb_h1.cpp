// ZB-H1 (Qi et al. 2023): 1F1B with the backward split. The input's gradient I leaves at once; the
// weights' gradient W of rank r waits for r further micro-batches and fills the gap at the end.
// At most p micro-batches are in flight on every rank, as on rank 0 of 1F1B; bubble (p-1)(F+I-W).
#include <algorithm>

#include "recipe/schedule/generators.hpp"

namespace stoker::recipe {

PipelineSchedule zb_h1(std::uint32_t ranks, std::uint32_t micro_batches) {
  PipelineSchedule schedule = round_robin(ranks, ranks, micro_batches);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    const std::uint32_t ahead = std::min(ranks - 1 - r, micro_batches);
    std::vector<PipelineOp>& ops = schedule.ranks[r];
    for (std::uint32_t m = 0; m < ahead; ++m) ops.push_back({OpKind::Forward, r, m});
    for (std::uint32_t m = 0; m < micro_batches; ++m) {
      if (m + ahead < micro_batches) ops.push_back({OpKind::Forward, r, m + ahead});
      ops.push_back({OpKind::InputGradient, r, m});
      if (m >= r) ops.push_back({OpKind::WeightGradient, r, m - r});
    }
    const std::uint32_t done = micro_batches > r ? micro_batches - r : 0;
    for (std::uint32_t m = done; m < micro_batches; ++m)
      ops.push_back({OpKind::WeightGradient, r, m});
  }
  return schedule;
}

}  // namespace stoker::recipe
