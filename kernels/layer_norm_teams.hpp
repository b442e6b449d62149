// LayerNorm's backward pass where a row fits the registers of a few warps.
#pragma once

#include <algorithm>

#include "kernels/columns.hpp"
#include "kernels/layer_norm.hpp"

namespace stoker::kernels {

// A team of whole warps has the packs of a row side by side, one a thread, of several rows at a
// time. So a thread has few columns to add up over the rows, and asks for many packs at once.
inline constexpr unsigned kTeamRows = 2, kMostThreads = 512, kTeamSums = 2 * kTeamRows;

inline unsigned team_threads(Index packs) {
  return static_cast<unsigned>((packs + kWarp - 1) / kWarp * kWarp);
}
inline unsigned team_count(unsigned threads) {
  return std::max(1u, kBlockThreads / threads);
}

// The team's sums of what each thread has, for all of its threads. `parts` is not written again
// before the next barrier.
__device__ inline void team_sums(float (&sums)[kTeamSums], float* parts, unsigned team,
                                 unsigned threads) {
  for (float& sum : sums) sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0)
    for (unsigned i = 0; i < kTeamSums; ++i) parts[threadIdx.x / kWarp * kTeamSums + i] = sums[i];
  __syncthreads();
  const float* first = parts + team * threads / kWarp * kTeamSums;
  for (unsigned i = 0; i < kTeamSums; ++i) sums[i] = first[i];
  for (unsigned warp = 1; warp < threads / kWarp; ++warp)
    for (unsigned i = 0; i < kTeamSums; ++i) sums[i] += first[warp * kTeamSums + i];
}

// workspace[block] = the sum over the block's teams, in their order.
template <unsigned kCount>
__device__ void put_teams(const float (&mine)[kCount], bool has, Index column, unsigned team,
                          unsigned teams, float* shared, float* workspace) {
  for (unsigned t = 0; t < teams; ++t) {
    if (team == t && has)
      for (unsigned j = 0; j < kCount; ++j)
        shared[column + j] = t == 0 ? mine[j] : shared[column + j] + mine[j];
    __syncthreads();
  }
  if (team == 0 && has)
    for (unsigned j = 0; j < kCount; ++j) workspace[column + j] = shared[column + j];
  __syncthreads();  // `shared` is free
}

// What a thread has of its team's rows.
template <class T>
struct TeamRows {
  Held<T> upstream[kTeamRows] = {}, x[kTeamRows] = {}, beside[kTeamRows] = {};
  float mean[kTeamRows], rstd[kTeamRows];
  __device__ void fetch(const LayerNormBackward<T>& n, Index row, Index end, Index column) {
    const auto width = static_cast<Index>(n.width);
    for (unsigned r = 0; r < kTeamRows; ++r) {
      const Index known = std::min(row + r, end - 1);
      mean[r] = n.mean[known], rstd[r] = n.rstd[known];
      upstream[r] = x[r] = beside[r] = {};
      if (column >= width || row + r >= end) continue;
      const Index start = row_start(row + r, width) + column;
      upstream[r] = hold(n.upstream + start);
      x[r] = hold(n.sum + start);
      if (n.beside != nullptr) beside[r] = hold(n.beside + start);
    }
  }
};

// The next rows are asked for before these are computed.
template <class T>
__global__ void __launch_bounds__(kMostThreads)
    backward_teams(LayerNormBackward<T> n, float* weights, float* biases, unsigned threads) {
  constexpr unsigned kCount = Pack<T>::kCount, kParts = kMostThreads / kWarp * kTeamSums;
  STOKER_SHARED(float, parts, 2 * kParts);
  STOKER_SHARED(float, columns, kMostThreads* kCount);
  const auto width = static_cast<Index>(n.width);
  const auto size = static_cast<float>(width);
  const unsigned team = threadIdx.x / threads, teams = blockDim.x / threads;
  const Index column = static_cast<Index>(threadIdx.x % threads) * kCount;
  const bool has = column < width;
  Held<T> weight{};
  if (has) weight = hold(n.weight + column);
  float along[kCount] = {}, plain[kCount] = {};
  const RowRange rows = group_rows(static_cast<Index>(n.rows), blockIdx.x, gridDim.x);
  unsigned turn = 0;  // of `parts`: the last one is still read
  const Index step = teams * kTeamRows;
  TeamRows<T> these, next;
  next.fetch(n, rows.begin + team * kTeamRows, rows.end, column);
  for (Index at = rows.begin; at < rows.end; at += step, turn ^= 1) {
    const Index row = at + team * kTeamRows;
    these = next;
    if (at + step < rows.end) next.fetch(n, row + step, rows.end, column);
    float sums[kTeamSums] = {};
    for (unsigned r = 0; r < kTeamRows; ++r)
      for (unsigned j = 0; j < kCount; ++j) {
        const float up = these.upstream[r][j], g = up * weight[j];
        const float hat = (these.x[r][j] - these.mean[r]) * these.rstd[r];
        sums[2 * r] += g;
        sums[2 * r + 1] += g * hat;
        plain[j] += up;
        along[j] += up * hat;
      }
    team_sums(sums, parts + turn * kParts, team, threads);
    for (unsigned r = 0; r < kTeamRows; ++r) {
      if (!has || row + r >= rows.end) continue;
      const float level = sums[2 * r] / size, slope = sums[2 * r + 1] / size;
      store(n.gradient + row_start(row + r, width) + column, rounded<T>([&](unsigned j) {
              const float g = these.upstream[r][j] * weight[j];
              const float hat = (these.x[r][j] - these.mean[r]) * these.rstd[r];
              return (g - level - hat * slope) * these.rstd[r] + these.beside[r][j];
            }));
    }
  }
  const Index to = row_start(blockIdx.x, width);
  put_teams(along, has, column, team, teams, columns, weights + to);
  put_teams(plain, has, column, team, teams, columns, biases + to);
}

}  // namespace stoker::kernels
