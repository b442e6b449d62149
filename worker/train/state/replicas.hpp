// Replicas: parameters that several ranks hold must be the same bits on all of them. Nothing
// repairs a difference by itself, and it spoils the training slowly (BLOOM's layer norms drifted
// apart for weeks), so the ranks compare digests. Data-parallel ranks hold the same of everything.
#pragma once

#include "worker/train/state/flat_state.hpp"

namespace stoker::train {

// Collective over the data-parallel ranks, the tensor ranks and the two holders of the tied
// embedding: masters and moments of what they share. The Error names the first tensor that differs,
// and the ranks.
Status compare_replicas(Comm& comm, const FlatState& state, bool tied, Duration deadline);

}  // namespace stoker::train
