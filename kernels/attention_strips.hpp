// Device code that both passes of attention_tiles*.cu share. A warp owns strips of 16 rows
// (queries, or keys where it computes their gradients), the other side comes in tiles of 64 rows
// through shared memory. What a strip has of a tile's scores is float[8][4]: for each 8 columns of
// the tile what a lane has of a product (tiles.hpp), which is also how the next product wants it on
// its left. Strips are kWide columns wide, the head's width rounded up; what is beyond the width or
// the sequence is zero.
#pragma once

#include <cmath>

#include "kernels/attention.hpp"
#include "kernels/tiles.hpp"

namespace stoker::kernels {

inline constexpr int kStrip = 16, kTile = 64;
inline constexpr unsigned kStripThreads = 128, kStripWarps = kStripThreads / kWarp;
inline constexpr unsigned kCells = kTile / 8;
inline constexpr float kLog2E = 1.4426950408889634f;

// Of a row in shared memory: eight rows of 16 bytes lie in different banks.
template <unsigned kWide>
inline constexpr int kPitch = kWide + 8;

// This block's head.
struct Head {
  int sequence, width;
  Index inputs, input_step, outs, out_step;  // elements: where its rows begin, and between two
  Index numbers;                             // where its numbers of rows begin
};
__device__ inline Head this_head(const AttentionForward<Bf16>& a) {
  const Index head = blockIdx.y, heads = static_cast<Index>(a.shape.heads);
  const Index sample = head / heads, place = head % heads;
  const auto start = [&](const AttentionSteps& steps) {
    return row_start(sample, static_cast<Index>(steps.sample)) +
           row_start(place, static_cast<Index>(steps.head));
  };
  return {static_cast<int>(a.shape.sequence),
          static_cast<int>(a.shape.width),
          start(a.inputs),
          static_cast<Index>(a.inputs.row),
          start(a.outs),
          static_cast<Index>(a.outs.row),
          row_start(head, static_cast<Index>(a.shape.sequence))};
}

__device__ inline float score_scale(const Head& head) {
  return 1.0f / std::sqrt(static_cast<float>(head.width));
}

// f(n, i) for each number that a lane has of a strip's part of a tile.
template <class F>
__device__ void each_number(F f) {
  STOKER_UNROLL
  for (unsigned n = 0; n < kCells; ++n) {
    STOKER_UNROLL
    for (unsigned i = 0; i < 4; ++i) f(n, i);
  }
}

// No score where the key is behind its query. The strip has queries and the tile keys, or the other
// way round.
template <bool kKeysInStrip>
__device__ void cut_diagonal(float (&scores)[kCells][4], int strip, int tile) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int row = strip + lane / 4, column = tile + lane % 4 * 2;
  each_number([&](unsigned n, unsigned i) {
    const int r = row + static_cast<int>(i / 2 * 8), c = column + static_cast<int>(n * 8 + i % 2);
    if (kKeysInStrip ? r > c : c > r) scores[n][i] = -INFINITY;
  });
}

// Begins to copy rows first ... first + kRows - 1, with all threads.
template <unsigned kWide, unsigned kRows>
__device__ void copy_rows(const Bf16* rows, Index step, int first, const Head& head, Bf16* to) {
  constexpr unsigned kPacks = kWide / 8;
  static_assert(kRows * kPacks % kStripThreads == 0);
  // Unrolled, each copy's address would have registers of its own, all the time.
  STOKER_NO_UNROLL
  for (unsigned j = 0; j < kRows * kPacks / kStripThreads; ++j) {
    const auto i = static_cast<int>(threadIdx.x + j * kStripThreads);
    const int row = i / static_cast<int>(kPacks), column = i % static_cast<int>(kPacks) * 8;
    const bool there = first + row < head.sequence && column < head.width;
    copy_beside(to + row * kPitch<kWide> + column,
                rows + (there ? row_start(first + row, step) + column : 0), there);
  }
}

// sums += rows of `left` x rows of `right`, transposed. Both are in shared memory.
template <unsigned kWide, unsigned kStrips>
__device__ void add_scores(const Bf16* left, const Bf16* right, float (&sums)[kStrips][kCells][4]) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  left += lane % 16 * kPitch<kWide> + lane / 16 * 8;
  right += (lane % 8 + lane / 16 * 8) * kPitch<kWide> + lane / 8 % 2 * 8;
  STOKER_UNROLL
  for (int k = 0; k < static_cast<int>(kWide); k += 16) {
    std::uint32_t mine[kStrips][4];
    STOKER_UNROLL
    for (unsigned m = 0; m < kStrips; ++m)
      load_matrices(left + static_cast<int>(m) * kStrip * kPitch<kWide> + k, mine[m]);
    STOKER_UNROLL
    for (unsigned n = 0; n < kCells; n += 2) {
      std::uint32_t theirs[4];
      load_matrices(right + static_cast<int>(n) * 8 * kPitch<kWide> + k, theirs);
      STOKER_UNROLL
      for (unsigned m = 0; m < kStrips; ++m) {
        multiply_add(sums[m][n], mine[m], theirs[0], theirs[1]);
        multiply_add(sums[m][n + 1], mine[m], theirs[2], theirs[3]);
      }
    }
  }
}

// sums += shares, rounded to bf16, x the tile's rows.
template <unsigned kWide, unsigned kStrips>
__device__ void add_rows(const float (&shares)[kStrips][kCells][4], const Bf16* rows,
                         float (&sums)[kStrips][kWide / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  rows += lane % 16 * kPitch<kWide> + lane / 16 * 8;
  STOKER_UNROLL
  for (unsigned k = 0; k < kCells; k += 2) {
    std::uint32_t mine[kStrips][4];
    STOKER_UNROLL
    for (unsigned m = 0; m < kStrips; ++m) {
      STOKER_UNROLL
      for (unsigned i = 0; i < 4; ++i)
        mine[m][i] = two_bf16(shares[m][k + i / 2][i % 2 * 2], shares[m][k + i / 2][i % 2 * 2 + 1]);
    }
    STOKER_UNROLL
    for (unsigned n = 0; n < kWide / 8; n += 2) {
      std::uint32_t theirs[4];
      load_transposed(rows + static_cast<int>(k) * 8 * kPitch<kWide> + static_cast<int>(n) * 8,
                      theirs);
      STOKER_UNROLL
      for (unsigned m = 0; m < kStrips; ++m) {
        multiply_add(sums[m][n], mine[m], theirs[0], theirs[1]);
        multiply_add(sums[m][n + 1], mine[m], theirs[2], theirs[3]);
      }
    }
  }
}

// A strip's rows to the tensor, each of the two halves (rows lane / 4 and lane / 4 + 8) times its
// factor.
template <unsigned kWide>
__device__ void store_strip(const float (&sums)[kWide / 8][4], const float (&factors)[2], int first,
                            Index step, const Head& head, Bf16* rows) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  for (int half = 0; half < 2; ++half) {
    const int row = first + lane / 4 + 8 * half;
    if (row >= head.sequence) continue;
    Bf16* to = rows + row_start(row, step) + lane % 4 * 2;
    STOKER_UNROLL
    for (unsigned n = 0; n < kWide / 8; ++n)
      if (static_cast<int>(n) * 8 < head.width)
        put_two(to + n * 8, sums[n][2 * half] * factors[half],
                sums[n][2 * half + 1] * factors[half]);
  }
}

// Four elements of the mask, from `element` on: a bit each, set if it is kept.
__device__ inline std::uint32_t kept_of(const DropoutDraw& draw, std::uint32_t block) {
  const PhiloxCounter words = draw.words(block);
  std::uint32_t bits = 0;
  STOKER_UNROLL
  for (unsigned i = 0; i < 4; ++i)
    bits |= static_cast<std::uint32_t>(words[i] >= draw.threshold) << i;
  return bits;
}

// The mask of a strip's part of a tile takes a draw a lane for each 8 columns of it, 32 draws of
// four elements; the lanes then pass the bits on. Four bits for each 8 columns: of `element`,
// `element` + step, ..., and the three behind each. Both are multiples of four (fits_tiles).
__device__ inline std::uint32_t draw_kept(const DropoutDraw& draw, Index element, Index step) {
  const auto block = static_cast<std::uint32_t>(element / 4);
  const auto blocks = static_cast<std::uint32_t>(step / 4);
  std::uint32_t bits = 0;
  STOKER_UNROLL
  for (unsigned n = 0; n < kCells; ++n) bits |= kept_of(draw, block + n * blocks) << (4 * n);
  return bits;
}

// What of a strip's part of a tile the dropout keeps.
class Mask {
 public:
  // The strip has queries, the tile keys.
  __device__ void draw_queries(const AttentionDropout& dropout, const AttentionShape& shape,
                               int query, int key) {
    const auto q = static_cast<int>(threadIdx.x % 4),
               row = static_cast<int>(threadIdx.x % kWarp / 4);
    const std::uint32_t mine =
        draw_kept(draw_of(dropout, shape),
                  first_of(dropout, shape, query + row + 8 * (q % 2), key + 4 * (q / 2)), 8);
    const std::uint32_t other = __shfl_xor_sync(kAllLanes, mine, 1);
    const std::uint32_t upper = q % 2 == 0 ? mine : other, lower = q % 2 == 0 ? other : mine;
    words_[0] = upper >> (q % 2 * 2), words_[1] = words_[0] >> 1;
    words_[2] = lower >> (q % 2 * 2), words_[3] = words_[2] >> 1;
  }
  // The strip has keys, the tile queries.
  __device__ void draw_keys(const AttentionDropout& dropout, const AttentionShape& shape, int key,
                            int query) {
    const auto lane = static_cast<int>(threadIdx.x % kWarp), i = lane / 4 % 4;
    const std::uint32_t mine = draw_kept(
        draw_of(dropout, shape),
        first_of(dropout, shape, query + lane % 4 * 2 + i % 2, key + lane / 16 * 4 + i / 2 * 8),
        8 * static_cast<Index>(shape.sequence));
    STOKER_UNROLL
    for (int j = 0; j < 4; ++j)
      words_[j] = __shfl_sync(kAllLanes, mine, lane / 16 * 16 + j * 4 + lane % 4) >> i;
  }
  // Of cell n the i-th number of this lane.
  [[nodiscard]] __device__ bool keeps(unsigned n, unsigned i) const {
    return (words_[i] >> (4 * n) & 1u) != 0;
  }

 private:
  __device__ static DropoutDraw draw_of(const AttentionDropout& dropout,
                                        const AttentionShape& shape) {
    DropoutDraw draw = dropout.draw;
    const std::uint64_t sample = dropout.samples[blockIdx.y / static_cast<unsigned>(shape.heads)];
    draw.sample_low = static_cast<std::uint32_t>(sample);
    draw.sample_high = static_cast<std::uint32_t>(sample >> 32);
    return draw;
  }
  __device__ static Index first_of(const AttentionDropout& dropout, const AttentionShape& shape,
                                   int query, int key) {
    const auto sequence = static_cast<Index>(shape.sequence);
    const auto place = static_cast<Index>(blockIdx.y % static_cast<unsigned>(shape.heads)) +
                       static_cast<Index>(dropout.first_head);
    return (place * sequence + query) * sequence + key;
  }
  std::uint32_t words_[4];  // of the lane's i-th number: bit 4 n is that of cell n
};

}  // namespace stoker::kernels
