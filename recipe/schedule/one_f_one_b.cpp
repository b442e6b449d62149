// 1F1B (PipeDream-flush; Narayanan et al. 2021): rank r runs ahead by p-1-r forwards, then one
// forward and one backward in turn, then the backwards that are left. At most p-r micro-batches are
// in flight on rank r; bubble (p-1)(F+B).
#include <algorithm>

#include "recipe/schedule/generators.hpp"

namespace stoker::recipe {

PipelineSchedule one_f_one_b(std::uint32_t ranks, std::uint32_t micro_batches) {
  PipelineSchedule schedule = round_robin(ranks, ranks, micro_batches);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    const std::uint32_t ahead = std::min(ranks - 1 - r, micro_batches);
    std::vector<PipelineOp>& ops = schedule.ranks[r];
    for (std::uint32_t m = 0; m < ahead; ++m) ops.push_back({OpKind::Forward, r, m});
    for (std::uint32_t m = 0; m < micro_batches; ++m) {
      if (m + ahead < micro_batches) ops.push_back({OpKind::Forward, r, m + ahead});
      ops.push_back({OpKind::Backward, r, m});
    }
  }
  return schedule;
}

}  // namespace stoker::recipe
