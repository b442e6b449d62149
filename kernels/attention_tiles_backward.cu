// The backward pass, in two kernels of a fixed order of additions, both of which make the scores
// again from log_sum: queries walk over keys for the query's gradient, and write delta, upstream x
// out; then keys walk over queries for the gradients of key and value. There a strip has the
// scores' transpose, so that its products need nothing from other lanes.
#include "kernels/attention_strips.hpp"
#include "kernels/attention_tiles.hpp"
#include "kernels/packs.hpp"

namespace stoker::kernels {
namespace {

// Upstream x out of a row, by a quad of lanes; each gets the sum.
__device__ inline float delta_of(const AttentionBackward<Bf16>& b, const Head& head, int row) {
  float sum = 0;
  if (row < head.sequence) {
    const Index at = head.outs + row_start(row, head.out_step);
    for (int column = static_cast<int>(threadIdx.x % 4) * 8; column < head.width; column += 32) {
      const Held<Bf16> out = hold(b.forward.out + at + column),
                       upstream = hold(b.upstream + at + column);
      STOKER_UNROLL
      for (unsigned i = 0; i < 8; ++i) sum += out[i] * upstream[i];
    }
  }
  sum += __shfl_xor_sync(kAllLanes, sum, 1);
  return sum + __shfl_xor_sync(kAllLanes, sum, 2);
}

// A pair of query and key: its score and upstream x value in; the probability after dropout and the
// gradient of the score out, both before the scale.
__device__ inline void differentiate(float& score, float& along, float scale, float log_sum,
                                     float delta, bool keeps, float kept) {
  const float probability = fast_exp2(score * scale - log_sum * kLog2E);
  score = keeps ? probability : 0.0f;
  along = probability * ((keeps ? along * kept : 0.0f) - delta);
}

template <unsigned kWide, bool kDrops>
__global__ void __launch_bounds__(kStripThreads) query_kernel(AttentionBackward<Bf16> b) {
  constexpr int kTileSize = kTile * kPitch<kWide>;
  STOKER_DYNAMIC_SHARED(Bf16, shared);
  Bf16 *queries = shared, *upstream = queries + kTileSize;
  Bf16* stages = upstream + kTileSize;  // two, of keys and values
  const AttentionForward<Bf16>& a = b.forward;
  const Head head = this_head(a);
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kTile;
  const auto warp = static_cast<int>(threadIdx.x / kWarp),
             lane = static_cast<int>(threadIdx.x % kWarp);
  const int own = first + warp * kStrip;
  const int end = std::min(first + kTile, head.sequence);
  const float scale = score_scale(head) * kLog2E;
  const auto fetch = [&](int key) {
    Bf16* to = stages + key / kTile % 2 * 2 * kTileSize;
    copy_rows<kWide, kTile>(a.key + head.inputs, head.input_step, key, head, to);
    copy_rows<kWide, kTile>(a.value + head.inputs, head.input_step, key, head, to + kTileSize);
  };
  copy_rows<kWide, kTile>(a.query + head.inputs, head.input_step, first, head, queries);
  copy_rows<kWide, kTile>(b.upstream + head.outs, head.out_step, first, head, upstream);
  fetch(0);
  float log_sum[2], delta[2];
  for (int half = 0; half < 2; ++half) {
    const int row = own + lane / 4 + 8 * half;
    delta[half] = delta_of(b, head, row);
    log_sum[half] = row < head.sequence ? a.log_sum[head.numbers + row] : 0.0f;
    if (lane % 4 == 0 && row < head.sequence) b.delta[head.numbers + row] = delta[half];
  }
  float sums[1][kWide / 8][4] = {};
  for (int key = 0; key < end; key += kTile) {
    copies_done();
    __syncthreads();  // the tile is there, and the one before it is done with
    if (key + kTile < end) fetch(key + kTile);
    const Bf16* tile = stages + key / kTile % 2 * 2 * kTileSize;
    float scores[1][kCells][4] = {}, along[1][kCells][4] = {};
    Mask mask;
    if constexpr (kDrops) mask.draw_queries(a.dropout, a.shape, own, key);
    add_scores<kWide>(queries + (own - first) * kPitch<kWide>, tile, scores);
    add_scores<kWide>(upstream + (own - first) * kPitch<kWide>, tile + kTileSize, along);
    if (key + kTile > own + 1) cut_diagonal<false>(scores[0], own, key);
    each_number([&](unsigned n, unsigned i) {
      differentiate(scores[0][n][i], along[0][n][i], scale, log_sum[i / 2], delta[i / 2],
                    !kDrops || mask.keeps(n, i), a.dropout.kept);
    });
    add_rows<kWide>(along, tile, sums);
  }
  const float factor = score_scale(head);
  store_strip<kWide>(sums[0], {factor, factor}, own, head.input_step, head, b.query + head.inputs);
}

// Of a tile of queries: their rows, those of upstream, and the numbers of the rows.
template <unsigned kWide>
struct QueryStage {
  Bf16 *queries, *upstream;
  float *log_sum, *delta;
};
template <unsigned kWide>
inline constexpr std::size_t kStageBytes = 2 * kTile* kPitch<kWide> * sizeof(Bf16) +
                                           2 * kTile * sizeof(float);
template <unsigned kWide>
__device__ QueryStage<kWide> stage_at(Bf16* stages, int which) {
  constexpr int kTileSize = kTile * kPitch<kWide>;
  Bf16* queries = stages + which * static_cast<int>(kStageBytes<kWide> / sizeof(Bf16));
  auto* log_sum = reinterpret_cast<float*>(queries + 2 * kTileSize);
  return {queries, queries + kTileSize, log_sum, log_sum + kTile};
}
template <unsigned kWide>
__device__ void fetch_queries(const AttentionBackward<Bf16>& b, const Head& head, int query,
                              const QueryStage<kWide>& to) {
  const AttentionForward<Bf16>& a = b.forward;
  copy_rows<kWide, kTile>(a.query + head.inputs, head.input_step, query, head, to.queries);
  copy_rows<kWide, kTile>(b.upstream + head.outs, head.out_step, query, head, to.upstream);
  const auto i = static_cast<int>(threadIdx.x) % kTile;
  const bool there = query + i < head.sequence;
  const Index at = head.numbers + (there ? query + i : 0);
  if (threadIdx.x < kTile)
    copy_beside(to.log_sum + i, a.log_sum + at, there);
  else
    copy_beside(to.delta + i, b.delta + at, there);
}

template <unsigned kWide, bool kDrops>
__global__ void __launch_bounds__(kStripThreads, kWide <= 64 ? 3 : 1)
    key_value_kernel(AttentionBackward<Bf16> b) {
  constexpr int kTileSize = kTile * kPitch<kWide>;
  STOKER_DYNAMIC_SHARED(Bf16, shared);
  Bf16 *keys = shared, *values = keys + kTileSize, *stages = values + kTileSize;
  const AttentionForward<Bf16>& a = b.forward;
  const Head head = this_head(a);
  const int first = static_cast<int>(blockIdx.x) * kTile;
  const unsigned lane = threadIdx.x % kWarp;
  const int own = first + static_cast<int>(threadIdx.x / kWarp) * kStrip;
  const float scale = score_scale(head) * kLog2E;
  copy_rows<kWide, kTile>(a.key + head.inputs, head.input_step, first, head, keys);
  copy_rows<kWide, kTile>(a.value + head.inputs, head.input_step, first, head, values);
  fetch_queries<kWide>(b, head, first, stage_at<kWide>(stages, first / kTile % 2));
  float key_sums[1][kWide / 8][4] = {}, value_sums[1][kWide / 8][4] = {};
  for (int query = first; query < head.sequence; query += kTile) {
    copies_done();
    __syncthreads();  // the tile is there, and the one before it is done with
    const int next = query + kTile;
    if (next < head.sequence)
      fetch_queries<kWide>(b, head, next, stage_at<kWide>(stages, next / kTile % 2));
    const QueryStage<kWide> tile = stage_at<kWide>(stages, query / kTile % 2);
    float scores[1][kCells][4] = {}, along[1][kCells][4] = {};
    add_scores<kWide>(keys + (own - first) * kPitch<kWide>, tile.queries, scores);
    add_scores<kWide>(values + (own - first) * kPitch<kWide>, tile.upstream, along);
    Mask mask;
    if constexpr (kDrops) mask.draw_keys(a.dropout, a.shape, own, query);
    // A query beyond the sequence has zeros: what it adds is zero.
    if (own + kStrip > query + 1) cut_diagonal<true>(scores[0], own, query);
    each_number([&](unsigned n, unsigned i) {
      const unsigned column = n * 8 + i % 2 + lane % 4 * 2;
      differentiate(scores[0][n][i], along[0][n][i], scale, tile.log_sum[column],
                    tile.delta[column], !kDrops || mask.keeps(n, i), a.dropout.kept);
    });
    add_rows<kWide>(scores, tile.upstream, value_sums);
    add_rows<kWide>(along, tile.queries, key_sums);
  }
  const float factor = score_scale(head), kept = kDrops ? a.dropout.kept : 1.0f;
  store_strip<kWide>(key_sums[0], {factor, factor}, own, head.input_step, head,
                     b.key + head.inputs);
  store_strip<kWide>(value_sums[0], {kept, kept}, own, head.input_step, head,
                     b.value + head.inputs);
}

template <unsigned kWide, bool kDrops>
GpuError backward(const AttentionBackward<Bf16>& b, Stream stream) {
  const AttentionShape& shape = b.forward.shape;
  const dim3 blocks(static_cast<unsigned>((shape.sequence + kTile - 1) / kTile),
                    static_cast<unsigned>(shape.samples * shape.heads));
  constexpr std::size_t kTileBytes = kTile * kPitch<kWide> * sizeof(Bf16);
  const Grid queries{blocks, kStripThreads, 6 * kTileBytes},
      keys{blocks, kStripThreads, 2 * kTileBytes + 2 * kStageBytes<kWide>};
  if (const GpuError e = launch(queries, stream, query_kernel<kWide, kDrops>, b)) return e;
  return launch(keys, stream, key_value_kernel<kWide, kDrops>, b);
}
template <unsigned kWide>
GpuError backward(const AttentionBackward<Bf16>& b, Stream stream) {
  return b.forward.dropout.samples != nullptr ? backward<kWide, true>(b, stream)
                                              : backward<kWide, false>(b, stream);
}

}  // namespace

bool fits_tiles(const AttentionBackward<Bf16>& b) {
  return fits_tiles(b.forward) &&
         in_packs(b.forward.shape.width, b.upstream, b.query, b.key, b.value);
}

GpuError attention_tiles_backward(const AttentionBackward<Bf16>& b, Stream stream) {
  if (b.forward.shape.width <= 32) return backward<32>(b, stream);
  if (b.forward.shape.width <= 64) return backward<64>(b, stream);
  if (b.forward.shape.width <= 96) return backward<96>(b, stream);
  return backward<128>(b, stream);
}

}  // namespace stoker::kernels
