// GradientSums: from what the backward passes of one rank added to what the optimizer uses: sums
// over the replicas, stage by stage as the schedule completes them, and the norm of the whole
// model.
#pragma once

#include "worker/train/state/flat_state.hpp"

namespace stoker::train {

class GradientSums {
 public:
  // `sequence_parallel`: the norms' gradients here are of this tensor rank's tokens alone.
  GradientSums(Comm& comm, FlatState& state, Duration deadline, bool sequence_parallel = false)
      : comm_(comm), state_(state), deadline_(deadline), sequence_parallel_(sequence_parallel) {}

  // Collective over the replicas: a stage of this rank is complete here. With ZeRO a rank has the
  // sums of what it owns afterwards, and nothing of use elsewhere.
  Status add_stage(std::uint32_t stage);
  // Collective over the two pipeline ranks that hold the tied embedding; before their stages.
  Status add_tied();
  // This rank's share of the square of the model's gradient norm: the sum over the world is all of
  // it. Every element counts once, even with copies elsewhere: on the replica that owns it with
  // ZeRO, also without, so the bits are the same.
  [[nodiscard]] double share_of_norm() const;

 private:
  [[nodiscard]] bool is_shared_end(std::uint32_t stage) const;
  [[nodiscard]] std::vector<std::size_t> norms_of(const StagePart& part) const;
  Status add_norms(const StagePart& part);  // over the tensor ranks

  Comm& comm_;
  FlatState& state_;
  Duration deadline_;
  bool sequence_parallel_;
  bool one_end_ = false;  // of the two that add to one embedding here is complete
};

}  // namespace stoker::train
