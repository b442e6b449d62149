// ZeRO-1 (Rajbhandari et al. 2020): each data-parallel rank sums up the gradients of the range it
// owns and updates it, then all gather the parameters. The sums of the gradients, the norm and each
// element's update are those of training without it, so the bits are the same.
#pragma once

#include "worker/train/state/flat_state.hpp"

namespace stoker::train {

// Collective over the data-parallel ranks: sums up the gradients of `range`. Where a rank owns
// everything it has all of the sums afterwards, else those of its own part; the rest of `range`
// holds nothing of use then.
Status sum_gradients(Comm& comm, FlatState& state, FlatRange range, Duration deadline);

// Collective over the data-parallel ranks, after each owns new parameters: afterwards all hold all.
// Does nothing where a rank owns everything.
Status gather_parameters(Comm& comm, FlatState& state, Duration deadline);

// The same after each rank has loaded its own range of masters and moments: afterwards each holds
// what it owns, and all parameters.
Status gather_state(Comm& comm, FlatState& state, Duration deadline);

}  // namespace stoker::train
