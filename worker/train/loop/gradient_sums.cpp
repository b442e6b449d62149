#include "worker/train/loop/gradient_sums.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include "worker/train/state/zero.hpp"

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
  for (const StagePart& part : state_.table().placement.parts) {
    if (part.stage != stage && !(shared && is_shared_end(part.stage))) continue;
    if (sequence_parallel_) STOKER_TRY_STATUS(add_norms(part));
    STOKER_TRY_STATUS(sum_gradients(comm_, state_, part.range, deadline_));
  }
  return ok();
}

// Places of weight and bias of every norm of a stage.
std::vector<std::size_t> GradientSums::norms_of(const StagePart& part) const {
  const ParameterTable& table = state_.table();
  std::vector<std::size_t> places;
  for (std::uint64_t layer = part.first_layer; layer < part.first_layer + part.layers; ++layer)
    for (const BlockParameter which : {kNorm1Weight, kNorm1Bias, kNorm2Weight, kNorm2Bias})
      places.push_back(table.blocks.at(layer) + which);
  if (table.final_norm && part.stage + 1 == table.placement.stages)
    for (const std::size_t which : {0, 1}) places.push_back(*table.final_norm + which);
  return places;
}

Status GradientSums::add_norms(const StagePart& part) {
  const auto places = norms_of(part);
  const auto range_of = [&](std::size_t place) {
    const Parameter& p = state_.table().parameters[place];
    return state_.gradients({p.offset, p.offset + p.count});
  };
  std::vector<char> all;
  for (const std::size_t place : places) {
    const Buffer norm = range_of(place);
    const char* bytes = static_cast<const char*>(norm.data);
    all.insert(all.end(), bytes, bytes + norm.bytes());
  }
  const Element element = state_.element();
  STOKER_TRY_STATUS(comm_.all_reduce(Axis::Tensor, Reduce::Sum,
                                     {all.data(), all.size() / size_of(element), element},
                                     {"norms of all tokens", deadline_}));
  const char* from = all.data();
  for (const std::size_t place : places) {
    const Buffer norm = range_of(place);
    std::memcpy(norm.data, from, norm.bytes());
    from += norm.bytes();
  }
  return ok();
}

Status GradientSums::add_tied() {
  const Parameter& word = state_.table().parameters[*state_.table().word];
  return comm_.all_reduce(Axis::Embedding, Reduce::Sum,
                          state_.gradients({word.offset, word.offset + word.count}),
                          {"tied embedding", deadline_});
}

double GradientSums::share_of_norm() const {
  return state_.gradient_sum_of_squares(own_range(state_.table(), comm_.mesh(), comm_.rank()));
}

}  // namespace stoker::train
