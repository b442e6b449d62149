// Sums over the rows of a matrix, a column a thread: the gradients of weights and biases. First
// each group of rows, then the groups. The order depends on the shape alone, so two runs give the
// same bits.
#pragma once

#include "kernels/column_workspace.hpp"
#include "kernels/packs.hpp"

namespace stoker::kernels {

inline constexpr unsigned kBlockWarps = kBlockThreads / kWarp;

// A group has at least a row for each warp of a block.
inline Index row_groups(Index rows) {
  return std::clamp<Index>((rows + kBlockWarps - 1) / kBlockWarps, 1, kRowGroups);
}

struct RowRange {
  Index begin, end;
};
__device__ inline RowRange group_rows(Index rows, Index group, Index groups) {
  const Index each = (rows + groups - 1) / groups;
  return {std::min(rows, group * each), std::min(rows, (group + 1) * each)};
}

// workspace[group][column] = the sum of value(row, column) over the group's rows.
template <class Value>
__device__ void sum_group(Value value, Index rows, Index width, float* workspace) {
  const Index column = first_element();
  if (column >= width) return;
  const Index group = blockIdx.y;
  const RowRange range = group_rows(rows, group, gridDim.y);
  float sum = 0;
  for (Index row = range.begin; row < range.end; ++row) sum += value(row, column);
  workspace[row_start(group, width) + column] = sum;
}

// The grid of a kernel that calls sum_group.
inline Grid group_grid(Index rows, Index width) {
  return Grid{dim3(blocks_for(width, kBlockThreads), static_cast<unsigned>(row_groups(rows)))};
}

// shared[column] = the sum over the block's warps, in their order, of what each has of a row's
// packs.
template <unsigned kMost, unsigned kCount>
__device__ void add_warps(const float (&mine)[kMost][kCount], Index packs, float* shared) {
  for (unsigned warp = 0; warp < kBlockWarps; ++warp) {
    if (threadIdx.x / kWarp == warp)
      each_pack<kMost>(packs, [&](unsigned i, Index pack) {
        for (unsigned j = 0; j < kCount; ++j) {
          float& sum = shared[pack * kCount + j];
          sum = warp == 0 ? mine[i][j] : sum + mine[i][j];
        }
      });
    __syncthreads();
  }
}

// A block's part of a matrix of packs: a group of rows and a warp's width of columns. A lane has
// one pack of columns, in every kBlockWarps-th row.
template <class T>
struct Stripe {
  Index width, first, packs;  // `first` and `packs`: of the block's columns, in packs
  RowRange rows;              // of the warp
  __device__ Stripe(Index all_rows, Index row_width)
      : width(row_width),
        first(first_row() * kWarp),
        packs(std::min<Index>(kWarp, row_width / Pack<T>::kCount - first)),
        rows(group_rows(all_rows, blockIdx.y, gridDim.y)) {
    rows.begin += threadIdx.x / kWarp;
  }
  [[nodiscard]] __device__ Index column(Index pack) const {
    return (first + pack) * Pack<T>::kCount;
  }
  // Element of the pack in this row.
  [[nodiscard]] __device__ Index at(Index row, Index pack) const {
    return row_start(row, width) + column(pack);
  }
};
template <class T>
Grid stripes(Index rows, Index width) {
  return Grid{
      dim3(blocks_for(width, kWarp * Pack<T>::kCount), static_cast<unsigned>(row_groups(rows)))};
}

// workspace[group] = the sums of the block's columns; shared has room for a warp's width of packs.
template <class T>
__device__ void put_stripe(const Stripe<T>& stripe, const float (&sums)[1][Pack<T>::kCount],
                           float* shared, float* workspace) {
  add_warps(sums, stripe.packs, shared);
  float* to = workspace + row_start(blockIdx.y, stripe.width) + stripe.column(0);
  for (Index c = threadIdx.x; c < stripe.packs * Pack<T>::kCount; c += blockDim.x)
    to[c] = shared[c];
}

// A warp a part of the groups, a lane a column.
static __global__ void add_groups(const float* workspace, Index groups, Index width,
                                  float* gradient) {
  STOKER_SHARED(float, parts, kBlockThreads);
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  for (Index first = first_row() * kWarp; first < width; first += all_rows() * kWarp) {
    const Index column = first + lane;
    float sum = 0;
    if (column < width)
      for (Index group = warp; group < groups; group += kBlockWarps)
        sum += workspace[row_start(group, width) + column];
    __syncthreads();  // who still reads the columns before
    parts[threadIdx.x] = sum;
    __syncthreads();
    if (warp > 0 || column >= width) continue;
    for (unsigned other = 1; other < kBlockWarps; ++other) sum += parts[other * kWarp + lane];
    gradient[column] += sum;
  }
}

inline GpuError add_columns(const float* workspace, Index rows, Index width, float* gradient,
                            Stream stream) {
  return launch(Grid{blocks_for(width, kWarp)}, stream, add_groups, workspace, row_groups(rows),
                width, gradient);
}

}  // namespace stoker::kernels
