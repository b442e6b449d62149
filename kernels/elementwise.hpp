// What is done to each element alone, on the GPU: adding up copies of a buffer, and rounding
// masters to the model's type. The CPU's loops stand where they are used (reduce_into, CpuDevice).
#pragma once

#include <cstddef>

#include "kernels/bf16.hpp"
#include "kernels/stream.hpp"

namespace stoker::kernels {

// total[i] = total[i] + next[i]
GpuError add_into(float* total, const float* next, std::size_t count, Stream stream);
GpuError add_into(double* total, const double* next, std::size_t count, Stream stream);
// total[i] = the larger one
GpuError max_into(float* total, const float* next, std::size_t count, Stream stream);
GpuError max_into(double* total, const double* next, std::size_t count, Stream stream);
GpuError round_to_bf16(const float* from, Bf16* to, std::size_t count, Stream stream);

}  // namespace stoker::kernels
