// ZB-V (Qi et al. 2024): each rank holds two chunks, stage r and stage 2p-1-r, so that the way
// through the stages has the form of a V and the loss comes back to rank 0. The same memory on
// every rank, at most that of 1F1B's first; with F = I = W only the start and end skew is left of
// the bubble. Source of the order: torch.distributed.pipelining ScheduleZBVZeroBubble, which makes
// it for at least 2p-1 micro-batches and drops those that do not exist.
#include <algorithm>
#include <array>

#include "recipe/schedule/generators.hpp"

namespace stoker::recipe {
namespace {

// One rank's list while it is made. Chunk 0 is the way down, chunk 1 the way up.
class ZbvRank {
 public:
  ZbvRank(std::uint32_t rank, std::uint32_t ranks, std::uint32_t micro_batches)
      : rank_(rank), ranks_(ranks), exist_(micro_batches) {}

  void forward(std::size_t chunk) { add(OpKind::Forward, chunk, forwards_[chunk]++); }
  void input(std::size_t chunk) { add(OpKind::InputGradient, chunk, inputs_[chunk]++); }
  void weight(std::size_t chunk) { add(OpKind::WeightGradient, chunk, weights_[chunk]++); }

  std::vector<PipelineOp> make() {
    const std::uint32_t made = std::max(exist_, 2 * ranks_ - 1), after = ranks_ - rank_;
    for (std::uint32_t i = 0; i < 2 * after - 1; ++i) forward(0);
    for (std::uint32_t i = 0; i < rank_; ++i) forward(1), forward(0);
    for (std::uint32_t i = 0; i < after; ++i) forward(1), input(1), weight(1);
    while (forwards_[1] < forwards_[0] || forwards_[0] < made) {
      if (forwards_[0] < made) forward(0);
      input(0), weight(0);
      forward(1), input(1), weight(1);
    }
    for (std::uint32_t i = 0; i < rank_; ++i) input(0), input(1);
    for (std::uint32_t i = 0; i < after; ++i) input(0), weight(0);
    for (const std::size_t chunk : {std::size_t{1}, std::size_t{0}})
      while (weights_[chunk] < inputs_[chunk]) weight(chunk);
    return std::move(ops_);
  }

 private:
  void add(OpKind kind, std::size_t chunk, std::uint32_t micro_batch) {
    if (micro_batch >= exist_) return;
    ops_.push_back({kind, chunk == 0 ? rank_ : 2 * ranks_ - 1 - rank_, micro_batch});
  }

  std::uint32_t rank_, ranks_, exist_;
  std::array<std::uint32_t, 2> forwards_{}, inputs_{}, weights_{};
  std::vector<PipelineOp> ops_;
};

}  // namespace

PipelineSchedule zb_v(std::uint32_t ranks, std::uint32_t micro_batches) {
  PipelineSchedule schedule;
  schedule.micro_batches = micro_batches;
  for (std::uint32_t s = 0; s < 2 * ranks; ++s)
    schedule.rank_of_stage.push_back(s < ranks ? s : 2 * ranks - 1 - s);
  for (std::uint32_t r = 0; r < ranks; ++r)
    schedule.ranks.push_back(ZbvRank(r, ranks, micro_batches).make());
  return schedule;
}

}  // namespace stoker::recipe
