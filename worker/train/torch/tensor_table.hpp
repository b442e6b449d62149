// The TensorTable of a state: views of its memory, on its device.
#pragma once

#include "worker/train/state/flat_state.hpp"
#include "worker/train/torch/block.hpp"

namespace stoker::train {

TensorTable view_tables(FlatState& state, Comm& comm, const ModelOptions& options,
                        const Operators& operators);

}  // namespace stoker::train
