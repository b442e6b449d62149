// Each operation that makes or needs a value of another rank gets its send or receive as a
// neighbour.
#include "recipe/schedule/passes.hpp"

namespace stoker::recipe {

void insert_transfers(PipelineSchedule& schedule) {
  const auto far = [&](std::uint32_t a, std::uint32_t b) {
    return schedule.rank_of_stage[a] != schedule.rank_of_stage[b];
  };
  for (auto& ops : schedule.ranks) {
    std::vector<PipelineOp> with;
    with.reserve(ops.size() * 2);
    for (const PipelineOp& op : ops) {
      const bool before = op.stage > 0 && far(op.stage, op.stage - 1);
      const bool behind = op.stage + 1 < schedule.stages() && far(op.stage, op.stage + 1);
      const bool forward = op.kind == OpKind::Forward, backward = is_backward(op.kind);
      if (forward && before) with.push_back({OpKind::RecvForward, op.stage, op.micro_batch});
      if (backward && behind) with.push_back({OpKind::RecvBackward, op.stage, op.micro_batch});
      with.push_back(op);
      if (forward && behind) with.push_back({OpKind::SendForward, op.stage, op.micro_batch});
      if (backward && before) with.push_back({OpKind::SendBackward, op.stage, op.micro_batch});
    }
    ops = std::move(with);
  }
}

}  // namespace stoker::recipe
