// A model's state with known values: every element of every tensor says which one it is, on any
// mesh. What was saved on one mesh and loaded on another is compared with them.
#pragma once

#include <fmt/format.h>
#include <string>

#include "common/hash.hpp"
#include "worker/train/comm/comm.hpp"
#include "worker/train/model/parameter_table.hpp"
#include "worker/train/state/flat_state.hpp"

namespace stoker::train {

inline recipe::ModelConfig small_model(std::uint64_t hidden = 16) {
  recipe::ModelConfig m;
  m.layers = 8, m.hidden = hidden, m.heads = 4, m.ffn = 20, m.sequence = 5, m.vocabulary = 300;
  return m;
}

inline FlatState state_on(const ModelLayout& layout, const Comm& comm, bool zero,
                          recipe::Dtype dtype = recipe::Dtype::F32) {
  ParameterTable table = layout.of_rank(comm.rank());
  const FlatRange owned =
      zero ? own_range(table, comm.mesh(), comm.rank()) : FlatRange{0, table.flat_size};
  return FlatState::allocate(std::move(table), dtype, owned).value();
}

// What element `i` of a tensor's part is after `iteration`, on any mesh.
inline float value_of(const std::string& name, StatePart part, std::uint64_t i,
                      std::uint64_t iteration) {
  return static_cast<float>(
      xxh3_64(fmt::format("{} {} {} {}", name, part_name(part), i, iteration)) % 1000003);
}

// f(element, its value after `iteration`) for all f32 parameters, and for the masters and moments
// that are owned here.
template <class F>
void for_each_element(const FlatState& state, std::uint64_t iteration, F f) {
  for (const StatePart part : {StatePart::Parameter, StatePart::Moment1, StatePart::Moment2})
    for (const Parameter& p : state.table().parameters) {
      auto* values = static_cast<float*>(state.part(part).data) + p.offset;
      wire::for_each_run(p.shape, p.box, 0, p.count, [&](const wire::Run& run) {
        for (std::uint64_t i = 0; i < run.count; ++i) {
          const std::size_t at = p.offset + run.in_a + i;
          const bool held = state.dtype() == recipe::Dtype::F32 && part == StatePart::Parameter;
          if (held || (at >= state.owned().begin && at < state.owned().end))
            f(values[run.in_a + i], value_of(p.name, part, run.in_tensor + i, iteration));
        }
      });
    }
}

}  // namespace stoker::train
