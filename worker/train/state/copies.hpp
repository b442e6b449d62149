// Copies: which parameters the ranks of an axis hold the same of, and which of them differ.
#pragma once

#include <vector>

#include "worker/train/state/flat_state.hpp"

namespace stoker::train {

struct Copies {
  Axis axis = Axis::Data;
  std::vector<const Parameter*> shared;
};
// Of one rank: with its data-parallel peers, its tensor ranks, and the other holder of the tied
// embedding (`tied`: two pipeline ranks hold it).
std::vector<Copies> copies_of(const ParameterTable& table, bool tied);

// The verdict over one parameter: places in the group.
struct Differing {
  const Parameter* parameter = nullptr;
  std::size_t good = 0;          // the first of those that most ranks agree with
  bool outvoted = false;         // more ranks agree with it than with anything else
  std::vector<std::size_t> bad;  // that hold other bits than it
};
// Collective over the axis; the same on all of its ranks.
Result<std::vector<Differing>> differing_of(Comm& comm, const FlatState& state,
                                            const Copies& copies, Duration deadline);

}  // namespace stoker::train
