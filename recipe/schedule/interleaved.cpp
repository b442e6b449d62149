// Interleaved 1F1B (Narayanan et al. 2021): each rank holds v chunks, stage c*p+r on rank r. The
// micro-batches pass in groups of p: a group goes through chunk 0 on all ranks, then through chunk
// 1 and so on; backwards take the chunks from the last. Bubble (p-1)(F+B)/v. Source of the table:
// Megatron-LM schedules.get_schedule_table, with the classic group of p.
#include <algorithm>

#include "recipe/schedule/generators.hpp"

namespace stoker::recipe {
namespace {

// The k-th forward of a rank, of m*v. Backwards: the same with the chunks from the last.
struct Turn {
  std::uint32_t chunk = 0, micro_batch = 0;
};
Turn turn(std::uint32_t k, std::uint32_t ranks, std::uint32_t chunks) {
  const std::uint32_t group = k / (ranks * chunks), inside = k % (ranks * chunks);
  return {inside / ranks, group * ranks + inside % ranks};
}

}  // namespace

PipelineSchedule interleaved(std::uint32_t ranks, std::uint32_t chunks,
                             std::uint32_t micro_batches) {
  PipelineSchedule schedule = round_robin(ranks, ranks * chunks, micro_batches);
  const std::uint32_t all = micro_batches * chunks;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    std::vector<PipelineOp>& ops = schedule.ranks[r];
    const auto forward = [&](std::uint32_t k) {
      const Turn t = turn(k, ranks, chunks);
      ops.push_back({OpKind::Forward, t.chunk * ranks + r, t.micro_batch});
    };
    const auto backward = [&](std::uint32_t k) {
      const Turn t = turn(k, ranks, chunks);
      ops.push_back({OpKind::Backward, (chunks - 1 - t.chunk) * ranks + r, t.micro_batch});
    };
    const std::uint32_t ahead = std::min(all, 2 * (ranks - 1 - r) + (chunks - 1) * ranks);
    for (std::uint32_t k = 0; k < ahead; ++k) forward(k);
    for (std::uint32_t k = 0; k < all; ++k) {
      if (k + ahead < all) forward(k + ahead);
      backward(k);
    }
  }
  return schedule;
}

}  // namespace stoker::recipe
