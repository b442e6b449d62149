#include "worker/train/loop/gradient_sums.hpp"

#include <utility>

namespace stoker::train {

// A rank that has both ends of the model adds to the embedding's gradient from both: neither is
// complete before the other.
bool GradientSums::is_shared_end(std::uint32_t stage) const {
  const ParameterTable& table = state_.table();
  const std::uint32_t last = table.placement.stages - 1;
  return last > 0 && table.holds_input() && table.holds_output() && (stage == 0 || stage == last);
}

Status GradientSums::add_stage(std::uint32_t stage) {
  const bool shared = is_shared_end(stage);
  if (shared && !std::exchange(one_end_, !one_end_)) return ok();
  for (const StagePart& part : state_.table().placement.parts)
    if (part.stage == stage || (shared && is_shared_end(part.stage)))
      STOKER_TRY_STATUS(comm_.all_reduce(Axis::Data, Reduce::Sum, state_.gradients(part.range),
                                         {"gradients", deadline_}));
  return ok();
}

Status GradientSums::add_tied() {
  const Parameter& word = state_.table().parameters[*state_.table().word];
  return comm_.all_reduce(Axis::Embedding, Reduce::Sum,
                          state_.gradients({word.offset, word.offset + word.count}),
                          {"tied embedding", deadline_});
}

double GradientSums::share_of_norm() const {
  return comm_.mesh().data_rank(comm_.rank()) == 0 ? state_.gradient_sum_of_squares() : 0;
}

}  // namespace stoker::train
