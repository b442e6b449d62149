// The forward pass: a block owns 64 queries a strip of its warps, and walks over the keys up to
// them. While a tile is computed the next one is copied. Softmax as it goes (Milakov and Gimelshein
// 2018): the largest score so far, the sum of the exponentials, and both faded when a larger one
// comes.
#include "kernels/attention_strips.hpp"
#include "kernels/attention_tiles.hpp"
#include "kernels/packs.hpp"

namespace stoker::kernels {
namespace {

// The larger strips read less of shared memory for each product; wide heads lack the registers.
template <unsigned kWide>
inline constexpr unsigned kStripsOf = kWide <= 64 ? 2 : 1;

// Of each half of a strip's rows; the sums are of this lane's columns.
struct Running {
  float most[2] = {-INFINITY, -INFINITY}, total[2] = {};
};

__device__ inline float over_quad(float value) {
  value += __shfl_xor_sync(kAllLanes, value, 1);
  return value + __shfl_xor_sync(kAllLanes, value, 2);
}
__device__ inline float largest_of_quad(float value) {
  value = std::fmax(value, __shfl_xor_sync(kAllLanes, value, 1));
  return std::fmax(value, __shfl_xor_sync(kAllLanes, value, 2));
}

// From scores to 2^(scale x (score - the largest so far)). A row's first tile has a score that is
// not cut, so the largest is a number.
template <unsigned kWide>
__device__ void soften(float (&scores)[kCells][4], float scale, Running& running,
                       float (&sums)[kWide / 8][4]) {
  STOKER_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    float most = running.most[half];
    STOKER_UNROLL
    for (unsigned n = 0; n < kCells; ++n)
      most = std::fmax(most, std::fmax(scores[n][2 * half], scores[n][2 * half + 1]));
    most = largest_of_quad(most);
    const float fade = fast_exp2((running.most[half] - most) * scale), shift = most * scale;
    running.most[half] = most;
    float total = 0;
    STOKER_UNROLL
    for (unsigned n = 0; n < kCells; ++n) {
      float &first = scores[n][2 * half], &second = scores[n][2 * half + 1];
      first = fast_exp2(first * scale - shift), second = fast_exp2(second * scale - shift);
      total += first + second;
    }
    running.total[half] = running.total[half] * fade + total;
    STOKER_UNROLL
    for (unsigned n = 0; n < kWide / 8; ++n)
      sums[n][2 * half] *= fade, sums[n][2 * half + 1] *= fade;
  }
}

template <unsigned kWide>
__device__ void store_rows(const AttentionForward<Bf16>& a, const Head& head, int first,
                           const Running& running, const float (&sums)[kWide / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  float factors[2];
  for (int half = 0; half < 2; ++half) {
    const float total = over_quad(running.total[half]);
    const int row = first + lane / 4 + 8 * half;
    factors[half] = a.dropout.kept / total;
    if (lane % 4 == 0 && row < head.sequence)
      a.log_sum[head.numbers + row] = running.most[half] * score_scale(head) + std::log(total);
  }
  store_strip<kWide>(sums, factors, first, head.out_step, head, a.out + head.outs);
}

template <unsigned kWide, bool kDrops>
__global__ void __launch_bounds__(kStripThreads) forward_kernel(AttentionForward<Bf16> a) {
  constexpr unsigned kStrips = kStripsOf<kWide>;
  constexpr int kQueries = static_cast<int>(kStrips * kStripWarps) * kStrip;
  constexpr int kTileSize = kTile * kPitch<kWide>;
  STOKER_DYNAMIC_SHARED(Bf16, shared);
  Bf16* queries = shared;
  Bf16* stages = queries + kQueries * kPitch<kWide>;  // two, of keys and values
  const Head head = this_head(a);
  // The longest walks begin first.
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kQueries;
  const auto warp = static_cast<int>(threadIdx.x / kWarp);
  const int own = first + warp * static_cast<int>(kStrips) * kStrip;
  const int behind = own + static_cast<int>(kStrips) * kStrip;  // the warp's last query, and one
  const int end = std::min(first + kQueries, head.sequence);
  const float scale = score_scale(head) * kLog2E;
  const auto fetch = [&](int key) {
    Bf16* to = stages + key / kTile % 2 * 2 * kTileSize;
    copy_rows<kWide, kTile>(a.key + head.inputs, head.input_step, key, head, to);
    copy_rows<kWide, kTile>(a.value + head.inputs, head.input_step, key, head, to + kTileSize);
  };
  copy_rows<kWide, kQueries>(a.query + head.inputs, head.input_step, first, head, queries);
  fetch(0);
  float sums[kStrips][kWide / 8][4] = {};
  Running running[kStrips];
  for (int key = 0; key < end; key += kTile) {
    copies_done();
    __syncthreads();  // the tile is there, and the one before it is done with
    if (key + kTile < end) fetch(key + kTile);
    if (key >= behind) continue;  // the whole warp
    const Bf16* tile = stages + key / kTile % 2 * 2 * kTileSize;
    float scores[kStrips][kCells][4] = {};
    add_scores<kWide>(queries + (own - first) * kPitch<kWide>, tile, scores);
    STOKER_UNROLL
    for (unsigned m = 0; m < kStrips; ++m) {
      const int query = own + static_cast<int>(m) * kStrip;
      if (key + kTile > query + 1) cut_diagonal<false>(scores[m], query, key);
      soften<kWide>(scores[m], scale, running[m], sums[m]);
      if constexpr (kDrops) {
        Mask mask;
        mask.draw_queries(a.dropout, a.shape, query, key);
        each_number([&](unsigned n, unsigned i) {
          if (!mask.keeps(n, i)) scores[m][n][i] = 0;
        });
      }
    }
    add_rows<kWide>(scores, tile + kTileSize, sums);
  }
  STOKER_UNROLL
  for (unsigned m = 0; m < kStrips; ++m)
    store_rows<kWide>(a, head, own + static_cast<int>(m) * kStrip, running[m], sums[m]);
}

template <unsigned kWide>
GpuError forward(const AttentionForward<Bf16>& a, Stream stream) {
  constexpr std::size_t kQueries = kStripsOf<kWide> * kStripWarps * kStrip;
  const dim3 blocks(static_cast<unsigned>((a.shape.sequence + kQueries - 1) / kQueries),
                    static_cast<unsigned>(a.shape.samples * a.shape.heads));
  const Grid grid{blocks, kStripThreads, (kQueries + 4 * kTile) * kPitch<kWide> * sizeof(Bf16)};
  return a.dropout.samples != nullptr ? launch(grid, stream, forward_kernel<kWide, true>, a)
                                      : launch(grid, stream, forward_kernel<kWide, false>, a);
}

// A mask whose rows begin within a block of the generator would take two draws for each.
bool masks_fit(const AttentionForward<Bf16>& a) {
  return a.dropout.samples == nullptr || a.shape.sequence % 4 == 0;
}

bool in_steps(const AttentionSteps& steps) {
  return steps.sample % 8 == 0 && steps.head % 8 == 0 && steps.row % 8 == 0;
}

}  // namespace

bool fits_tiles(const AttentionForward<Bf16>& a) {
  return in_tiles(a.shape) && masks_fit(a) && in_steps(a.inputs) && in_steps(a.outs) &&
         in_packs(a.shape.width, a.query, a.key, a.value, a.out);
}

GpuError attention_tiles(const AttentionForward<Bf16>& a, Stream stream) {
  if (a.shape.width <= 32) return forward<32>(a, stream);
  if (a.shape.width <= 64) return forward<64>(a, stream);
  if (a.shape.width <= 96) return forward<96>(a, stream);
  return forward<128>(a, stream);
}

}  // namespace stoker::kernels
