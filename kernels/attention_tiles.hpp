// Attention of bf16 on tensor cores (Dao 2023, FlashAttention-2), for kernels/attention.cu, which
// checks and chooses. Steps are given, there is at least one row.
#pragma once

#include "kernels/attention.hpp"

namespace stoker::kernels {

bool fits_tiles(const AttentionForward<Bf16>& attention);
bool fits_tiles(const AttentionBackward<Bf16>& attention);
GpuError attention_tiles(const AttentionForward<Bf16>& attention, Stream stream);
GpuError attention_tiles_backward(const AttentionBackward<Bf16>& attention, Stream stream);

}  // namespace stoker::kernels
