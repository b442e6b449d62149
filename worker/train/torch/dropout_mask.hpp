// Dropout's masks as tensors, drawn by the counter-based generator of kernels/dropout.hpp: on the
// CPU by all threads, on a GPU by the kernel; the same bits.
#pragma once

#include <ATen/ATen.h>

#include "kernels/dropout.hpp"
#include "worker/train/torch/pass.hpp"

namespace stoker::train {

// The mask of one site in `like`'s type, [samples, elements] reshaped to `shape`; `first` is the
// logical element where each sample's begins.
at::Tensor dropout_mask(const Pass& pass, std::uint32_t layer, kernels::DropoutSite site,
                        at::IntArrayRef shape, const at::Tensor& like, std::int64_t first = 0);
// Of a site between the products, for this rank's tokens.
at::Tensor hidden_mask(const Pass& pass, std::uint32_t layer, kernels::DropoutSite site,
                       const at::Tensor& like);

}  // namespace stoker::train
