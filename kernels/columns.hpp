// Sums over the rows of a matrix, a column a thread: the gradients of weights and biases. First
// each group of rows, then the groups in their order, so two runs give the same bits.
#pragma once

#include "kernels/grid.hpp"

namespace stoker::kernels {

inline constexpr Index kRowGroups = 64;

// f32 values of workspace that add_columns needs.
constexpr std::size_t column_workspace(std::size_t width) {
  return static_cast<std::size_t>(kRowGroups) * width;
}

// workspace[group][column] = the sum of value(row, column) over the group's rows.
template <class Value>
__device__ void sum_group(Value value, Index rows, Index width, float* workspace) {
  const Index column = first_element();
  if (column >= width) return;
  const Index group = blockIdx.y, each = (rows + kRowGroups - 1) / kRowGroups;
  const Index end = std::min(rows, (group + 1) * each);
  float sum = 0;
  for (Index row = group * each; row < end; ++row) sum += value(row, column);
  workspace[row_start(group, width) + column] = sum;
}

// The grid of a kernel that calls sum_group.
inline Grid group_grid(Index width) {
  return Grid{dim3(blocks_for(width, kBlockThreads), static_cast<unsigned>(kRowGroups))};
}

static __global__ void add_groups(const float* workspace, Index width, float* gradient) {
  for (Index column = first_element(); column < width; column += all_threads()) {
    float sum = 0;
    for (Index group = 0; group < kRowGroups; ++group)
      sum += workspace[row_start(group, width) + column];
    gradient[column] += sum;
  }
}

inline GpuError add_columns(const float* workspace, Index width, float* gradient, Stream stream) {
  return launch(Grid{blocks_for(width, kBlockThreads)}, stream, add_groups, workspace, width,
                gradient);
}

}  // namespace stoker::kernels
