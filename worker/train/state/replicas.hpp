// Replicas: parameters that several ranks hold must be the same bits on all of them. A difference
// spoils the training slowly (BLOOM's layer norms drifted apart for weeks), so the ranks compare
// digests of masters and moments. Data-parallel ranks hold the same of everything, tensor ranks of
// what each holds whole, the two ends of the pipeline of the tied embedding. With ZeRO the model's
// parameters are compared: moments exist once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "worker/train/state/flat_state.hpp"

namespace stoker::train {

// A tensor of which not all copies are the same bits.
struct Drift {
  std::string tensor;                // "blocks.0.norm1.weight"
  std::string element;               // that differs most: "[3]", "[12, 5]"
  std::string part;                  // "parameter" | "moment1" | "moment2"
  std::vector<std::uint32_t> ranks;  // whose copy is not that of `good`; at most kDriftRanks
  std::uint32_t good = 0;            // the lowest one of those whose bits most ranks hold
  bool outvoted = false;             // more ranks than any other bits
  std::uint64_t tensors = 0;         // that differ, on one rank
  // "blocks.0.norm1.weight[3]: its parameter on rank 1 differs from that on rank 0"
  [[nodiscard]] std::string text() const;
};
inline constexpr std::size_t kDriftRanks = 8;

// Collective over the world; the same answer on all ranks: of the tensors that differ on the lowest
// rank the one whose copies are furthest apart.
Result<std::optional<Drift>> find_drift(Comm& comm, const FlatState& state, bool tied,
                                        Duration deadline);

// Collective over the world: every copy becomes that of the rank that `Drift::good` means, tensor
// by tensor: masters and moments. With ZeRO data-parallel ranks take the parameters from their
// owners.
Status repair_drift(Comm& comm, FlatState& state, bool tied, Duration deadline);

}  // namespace stoker::train
