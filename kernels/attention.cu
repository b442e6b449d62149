// A block owns a few rows of one head, a warp kOwn of them. It walks over the other side in tiles
// of 32 rows: a lane then computes the score with its row of the tile, and for the sums over the
// tile a lane holds every 32nd column. Forward and the query's gradient own queries and walk over
// keys; the gradients of key and value own keys and walk over queries. Plain f32 arithmetic, for
// every width; bf16 on tensor cores is in attention_tiles*.cu.
#include <cmath>

#include "common/check.hpp"
#include "kernels/attention.hpp"
#include "kernels/attention_tiles.hpp"
#include "kernels/grid.hpp"

namespace stoker::kernels {
namespace {

constexpr unsigned kThreads = 128, kOwn = 2, kOwned = kThreads / kWarp * kOwn;
constexpr Index kTile = kWarp;
constexpr unsigned kColumns = kAttentionWidth / kWarp;  // of a lane, at most

struct Sizes {
  Index heads, sequence, width;
  [[nodiscard]] STOKER_BOTH Index pitch() const { return width + 1; }  // no bank twice
};

// Rows first ... first + rows - 1 of a head into shared memory, zeros beyond the sequence.
template <class T>
__device__ void load_rows(const T* head, Index step, Index first, Index rows, const Sizes& s,
                          float* to) {
  for (Index i = threadIdx.x; i < rows * s.width; i += kThreads) {
    const Index row = i / s.width, column = i % s.width;
    to[row * s.pitch() + column] =
        first + row < s.sequence ? widen(head[row_start(first + row, step) + column]) : 0.0f;
  }
}

__device__ inline float dot(const float* a, const float* b, Index width) {
  float sum = 0;
  for (Index i = 0; i < width; ++i) sum += a[i] * b[i];
  return sum;
}

// sum[c] += the tile's rows, each times the share of its lane.
__device__ inline void add_tile(float share, const float* tile, const Sizes& s, float* sum) {
  const unsigned lane = threadIdx.x % kWarp;
  for (unsigned from = 0; from < kWarp; ++from) {
    const float other = __shfl_sync(kAllLanes, share, static_cast<int>(from));
    for (unsigned c = 0; c < kColumns; ++c)
      if (lane + c * kWarp < s.width) sum[c] += other * tile[from * s.pitch() + lane + c * kWarp];
  }
}

template <class T>
__device__ void store_row(const float* sum, float factor, const Sizes& s, T* row) {
  const unsigned lane = threadIdx.x % kWarp;
  for (unsigned c = 0; c < kColumns; ++c)
    if (lane + c * kWarp < s.width) put(row + lane + c * kWarp, sum[c] * factor);
}

// What the mask makes of a probability: 0, 1 or 1 / (1 - p).
__device__ inline float mask_of(const AttentionDropout& dropout, const Sizes& s, Index head,
                                Index query, Index key) {
  if (dropout.samples == nullptr) return 1;
  DropoutDraw draw = dropout.draw;
  const std::uint64_t sample = dropout.samples[head / s.heads];
  draw.sample_low = static_cast<std::uint32_t>(sample);
  draw.sample_high = static_cast<std::uint32_t>(sample >> 32);
  const Index place = head % s.heads + static_cast<Index>(dropout.first_head);
  const Index element = (place * s.sequence + query) * s.sequence + key;
  const PhiloxCounter words = draw.words(static_cast<std::uint32_t>(element / 4));
  return words[static_cast<std::size_t>(element % 4)] >= draw.threshold ? dropout.kept : 0.0f;
}

__device__ inline float score_scale(const Sizes& s) {
  return 1.0f / std::sqrt(static_cast<float>(s.width));
}

// Where this block's head begins.
__device__ inline Index head_start(const AttentionSteps& steps, const Sizes& s) {
  const Index head = blockIdx.y;
  return row_start(head / s.heads, static_cast<Index>(steps.sample)) +
         row_start(head % s.heads, static_cast<Index>(steps.head));
}

template <class T>
__global__ void forward_kernel(AttentionForward<T> a, Sizes s) {
  STOKER_DYNAMIC_SHARED(float, shared);
  float *keys = shared, *values = keys + kTile * s.pitch(), *own = values + kTile * s.pitch();
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const Index head = blockIdx.y, first = first_row() * kOwned;
  const Index start = head_start(a.inputs, s), step = static_cast<Index>(a.inputs.row);
  load_rows(a.query + start, step, first, kOwned, s, own);
  float sum[kOwn][kColumns] = {}, most[kOwn], total[kOwn] = {};
  for (float& m : most) m = -INFINITY;
  const Index end = std::min(first + kOwned, s.sequence);
  for (Index tile = 0; tile < end; tile += kTile) {
    __syncthreads();  // who still reads the tile before
    load_rows(a.key + start, step, tile, kTile, s, keys);
    load_rows(a.value + start, step, tile, kTile, s, values);
    __syncthreads();
    for (unsigned j = 0; j < kOwn; ++j) {
      const Index query = first + warp * kOwn + j, key = tile + lane;
      if (query >= s.sequence || tile > query) continue;  // the whole warp
      const float* mine = own + (warp * kOwn + j) * s.pitch();
      const float score =
          key <= query ? dot(mine, keys + lane * s.pitch(), s.width) * score_scale(s) : -INFINITY;
      const float next = std::fmax(most[j], warp_max(score));
      const float share = std::exp(score - next), fade = std::exp(most[j] - next);
      most[j] = next;
      total[j] = total[j] * fade + warp_sum(share);
      for (float& x : sum[j]) x *= fade;
      add_tile(key <= query ? share * mask_of(a.dropout, s, head, query, key) : 0.0f, values, s,
               sum[j]);
    }
  }
  for (unsigned j = 0; j < kOwn; ++j) {
    const Index query = first + warp * kOwn + j;
    if (query >= s.sequence) continue;
    store_row(sum[j], 1.0f / total[j], s,
              a.out + head_start(a.outs, s) + row_start(query, static_cast<Index>(a.outs.row)));
    if (lane == 0) a.log_sum[head * s.sequence + query] = most[j] + std::log(total[j]);
  }
}

// The probability of (query, key) and the gradient of its score, both before the scale.
struct Pair {
  float dropped, gradient;
};
template <class T>
__device__ Pair pair_of(const AttentionBackward<T>& b, const Sizes& s, Index head, Index query,
                        Index key, float score, float along) {
  const Index row = head * s.sequence + query;
  const float probability = std::exp(score * score_scale(s) - b.forward.log_sum[row]);
  const float mask = mask_of(b.forward.dropout, s, head, query, key);
  return {probability * mask, probability * (mask * along - b.delta[row])};
}

// Row by row upstream x out; a row of blocks for a head.
template <class T>
__global__ void delta_kernel(AttentionBackward<T> b, Sizes s) {
  const unsigned lane = threadIdx.x % kWarp;
  const Index head = blockIdx.y, start = head_start(b.forward.outs, s);
  for (Index row = first_element() / kWarp; row < s.sequence; row += all_threads() / kWarp) {
    const Index at = start + row_start(row, static_cast<Index>(b.forward.outs.row));
    float sum = 0;
    for (Index i = lane; i < s.width; i += kWarp)
      sum += widen(b.upstream[at + i]) * widen(b.forward.out[at + i]);
    sum = warp_sum(sum);
    if (lane == 0) b.delta[head * s.sequence + row] = sum;
  }
}

template <class T>
__global__ void query_kernel(AttentionBackward<T> b, Sizes s) {
  STOKER_DYNAMIC_SHARED(float, shared);
  float *keys = shared, *values = keys + kTile * s.pitch(), *own = values + kTile * s.pitch();
  float* upstream = own + kOwned * s.pitch();
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const Index head = blockIdx.y, first = first_row() * kOwned;
  const Index start = head_start(b.forward.inputs, s), above = head_start(b.forward.outs, s);
  const auto step = static_cast<Index>(b.forward.inputs.row);
  load_rows(b.forward.query + start, step, first, kOwned, s, own);
  load_rows(b.upstream + above, static_cast<Index>(b.forward.outs.row), first, kOwned, s, upstream);
  float sum[kOwn][kColumns] = {};
  const Index end = std::min(first + kOwned, s.sequence);
  for (Index tile = 0; tile < end; tile += kTile) {
    __syncthreads();
    load_rows(b.forward.key + start, step, tile, kTile, s, keys);
    load_rows(b.forward.value + start, step, tile, kTile, s, values);
    __syncthreads();
    for (unsigned j = 0; j < kOwn; ++j) {
      const Index query = first + warp * kOwn + j, key = tile + lane;
      if (query >= s.sequence || tile > query) continue;
      const Index mine = (warp * kOwn + j) * s.pitch(), theirs = lane * s.pitch();
      Pair pair{0, 0};
      if (key <= query)
        pair = pair_of(b, s, head, query, key, dot(own + mine, keys + theirs, s.width),
                       dot(upstream + mine, values + theirs, s.width));
      add_tile(pair.gradient, keys, s, sum[j]);
    }
  }
  for (unsigned j = 0; j < kOwn; ++j) {
    const Index query = first + warp * kOwn + j;
    if (query < s.sequence)
      store_row(sum[j], score_scale(s), s, b.query + start + row_start(query, step));
  }
}

template <class T>
__global__ void key_value_kernel(AttentionBackward<T> b, Sizes s) {
  STOKER_DYNAMIC_SHARED(float, shared);
  float *queries = shared, *upstream = queries + kTile * s.pitch();
  float *own = upstream + kTile * s.pitch(), *own_values = own + kOwned * s.pitch();
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const Index head = blockIdx.y, first = first_row() * kOwned;
  const Index start = head_start(b.forward.inputs, s), above = head_start(b.forward.outs, s);
  const auto step = static_cast<Index>(b.forward.inputs.row);
  load_rows(b.forward.key + start, step, first, kOwned, s, own);
  load_rows(b.forward.value + start, step, first, kOwned, s, own_values);
  float keys[kOwn][kColumns] = {}, values[kOwn][kColumns] = {};
  for (Index tile = first / kTile * kTile; tile < s.sequence; tile += kTile) {
    __syncthreads();
    load_rows(b.forward.query + start, step, tile, kTile, s, queries);
    load_rows(b.upstream + above, static_cast<Index>(b.forward.outs.row), tile, kTile, s, upstream);
    __syncthreads();
    for (unsigned j = 0; j < kOwn; ++j) {
      const Index key = first + warp * kOwn + j, query = tile + lane;
      if (key >= s.sequence) continue;
      const Index mine = (warp * kOwn + j) * s.pitch(), theirs = lane * s.pitch();
      Pair pair{0, 0};
      if (key <= query && query < s.sequence)
        pair = pair_of(b, s, head, query, key, dot(queries + theirs, own + mine, s.width),
                       dot(upstream + theirs, own_values + mine, s.width));
      add_tile(pair.gradient, queries, s, keys[j]);
      add_tile(pair.dropped, upstream, s, values[j]);
    }
  }
  for (unsigned j = 0; j < kOwn; ++j) {
    const Index key = first + warp * kOwn + j;
    if (key >= s.sequence) continue;
    store_row(keys[j], score_scale(s), s, b.key + start + row_start(key, step));
    store_row(values[j], 1.0f, s, b.value + start + row_start(key, step));
  }
}

// One block for kOwned rows of a head.
Grid rows_grid(const AttentionShape& shape, Index shared_rows) {
  const auto own = static_cast<Index>(kOwned), rows = static_cast<Index>(shape.sequence);
  return Grid{dim3(static_cast<unsigned>((rows + own - 1) / own),
                   static_cast<unsigned>(shape.samples * shape.heads)),
              kThreads, static_cast<std::size_t>(shared_rows) * (shape.width + 1) * sizeof(float)};
}

Sizes checked(const AttentionShape& shape, const AttentionDropout& dropout) {
  STOKER_CHECK(shape.width >= 1 && shape.width <= kAttentionWidth, "width of an attention head");
  STOKER_CHECK(shape.samples * shape.heads <= kAttentionHeads, "heads of a micro-batch");
  STOKER_CHECK((dropout.first_head + shape.heads) * shape.sequence * shape.sequence <=
                   (std::uint64_t{1} << 34),
               "scores of a sample");
  return {static_cast<Index>(shape.heads), static_cast<Index>(shape.sequence),
          static_cast<Index>(shape.width)};
}

AttentionSteps steps_of(const AttentionSteps& given, const AttentionShape& shape) {
  if (given.row != 0) return given;
  const std::size_t head = shape.sequence * shape.width;
  return {shape.heads * head, head, shape.width};
}
template <class T>
AttentionForward<T> with_steps(AttentionForward<T> a) {
  a.inputs = steps_of(a.inputs, a.shape), a.outs = steps_of(a.outs, a.shape);
  return a;
}

template <class T>
GpuError forward(const AttentionForward<T>& given, Stream stream) {
  const AttentionForward<T> a = with_steps(given);
  const Sizes sizes = checked(a.shape, a.dropout);
  if (a.shape.samples * a.shape.heads * a.shape.sequence == 0) return 0;
  if constexpr (std::is_same_v<T, Bf16>)
    if (fits_tiles(a)) return attention_tiles(a, stream);
  return launch(rows_grid(a.shape, 2 * kTile + kOwned), stream, forward_kernel<T>, a, sizes);
}

template <class T>
GpuError backward(const AttentionBackward<T>& given, Stream stream) {
  AttentionBackward<T> b = given;
  b.forward = with_steps(b.forward);
  const AttentionShape& shape = b.forward.shape;
  const Sizes sizes = checked(shape, b.forward.dropout);
  if (shape.samples * shape.heads * shape.sequence == 0) return 0;
  if constexpr (std::is_same_v<T, Bf16>)
    if (fits_tiles(b)) return attention_tiles_backward(b, stream);
  const Grid grid = rows_grid(shape, 2 * kTile + 2 * kOwned);
  const dim3 blocks(blocks_for(sizes.sequence, kBlockThreads / kWarp), grid.blocks.y);
  if (const GpuError e = launch(Grid{blocks}, stream, delta_kernel<T>, b, sizes)) return e;
  if (const GpuError e = launch(grid, stream, query_kernel<T>, b, sizes)) return e;
  return launch(grid, stream, key_value_kernel<T>, b, sizes);
}

}  // namespace

GpuError attention(const AttentionForward<float>& attention, Stream stream) {
  return forward(attention, stream);
}
GpuError attention(const AttentionForward<Bf16>& attention, Stream stream) {
  return forward(attention, stream);
}
GpuError attention_backward(const AttentionBackward<float>& attention, Stream stream) {
  return backward(attention, stream);
}
GpuError attention_backward(const AttentionBackward<Bf16>& attention, Stream stream) {
  return backward(attention, stream);
}

AttentionReference attention_reference(const std::vector<double>& query,
                                       const std::vector<double>& key,
                                       const std::vector<double>& value,
                                       const std::vector<double>& mask,
                                       const std::vector<double>& upstream, std::size_t width) {
  const std::size_t n = query.size() / width;
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  AttentionReference r;
  for (auto* x : {&r.out, &r.query, &r.key, &r.value}) x->resize(query.size());
  const auto product = [&](const std::vector<double>& a, std::size_t i,
                           const std::vector<double>& b, std::size_t j) {
    double sum = 0;
    for (std::size_t c = 0; c < width; ++c) sum += a[i * width + c] * b[j * width + c];
    return sum;
  };
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> share(i + 1);
    double most = -INFINITY, total = 0, mean = 0;
    for (std::size_t j = 0; j <= i; ++j)
      most = std::max(most, share[j] = product(query, i, key, j) * scale);
    for (double& x : share) total += x = std::exp(x - most);
    for (double& x : share) x /= total;
    for (std::size_t j = 0; j <= i; ++j)
      mean += share[j] * mask[i * n + j] * product(upstream, i, value, j);
    for (std::size_t j = 0; j <= i; ++j) {
      const double kept = mask[i * n + j];
      const double slope = share[j] * (kept * product(upstream, i, value, j) - mean) * scale;
      for (std::size_t c = 0; c < width; ++c) {
        r.out[i * width + c] += share[j] * kept * value[j * width + c];
        r.value[j * width + c] += share[j] * kept * upstream[i * width + c];
        r.query[i * width + c] += slope * key[j * width + c];
        r.key[j * width + c] += slope * query[i * width + c];
      }
    }
  }
  return r;
}

}  // namespace stoker::kernels
