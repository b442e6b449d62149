// PassTrace: what a stage's part of one micro-batch keeps from its forward to its backward pass.
#pragma once

#include "worker/train/torch/block.hpp"

namespace stoker::train {

struct PassTrace {
  Pass pass;
  std::vector<std::uint64_t> ids;
  at::Tensor device_ids;      // where the device draws the dropout
  at::Tensor inputs, labels;  // [T]
  at::Tensor embedding_mask;
  std::vector<BlockTrace> blocks;
  at::Tensor last;  // input of the final norm
  NormTrace norm;
  Loss loss;
  std::vector<Product> later;  // between the two halves of the backward pass
};

}  // namespace stoker::train
