// Sums over the rows of a matrix on the GPU: the gradient of a bias. All pointers are of the
// device.
#pragma once

#include <cstddef>

#include "kernels/bf16.hpp"
#include "kernels/column_workspace.hpp"
#include "kernels/stream.hpp"

namespace stoker::kernels {

// sums[c] += the sum of values[row][c], in an order that depends on the shape alone. `workspace`
// has column_workspace(width) values.
GpuError add_column_sums(const float* values, std::size_t rows, std::size_t width, float* workspace,
                         float* sums, Stream stream);
GpuError add_column_sums(const Bf16* values, std::size_t rows, std::size_t width, float* workspace,
                         float* sums, Stream stream);

}  // namespace stoker::kernels
