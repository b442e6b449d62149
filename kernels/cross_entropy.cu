// One block a token. A row of packs that fits into shared memory is read and written once; a longer
// one is read again, from the cache; others are read three times.
#include <algorithm>
#include <cmath>

#include "kernels/cross_entropy.hpp"
#include "kernels/packs.hpp"
#include "kernels/tiles.hpp"

namespace stoker::kernels {
namespace {

template <class T>
__global__ void cross_entropy_kernel(CrossEntropy<T> chunk) {
  STOKER_SHARED(float, scratch, kBlockThreads / kWarp);
  const auto tokens = static_cast<Index>(chunk.tokens);
  const auto vocabulary = static_cast<Index>(chunk.vocabulary);
  const auto stride = static_cast<Index>(chunk.stride);
  for (Index token = first_row(); token < tokens; token += all_rows()) {
    T* row = chunk.logits + row_start(token, stride);
    const std::int64_t target = chunk.targets[token];
    float most = -INFINITY;
    for (Index c = threadIdx.x; c < vocabulary; c += blockDim.x)
      most = std::fmax(most, widen(row[c]));
    most = block_max(most, scratch);
    float sum = 0;
    for (Index c = threadIdx.x; c < vocabulary; c += blockDim.x)
      sum += std::exp(widen(row[c]) - most);
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0)
      chunk.losses[token] =
          target == kNoTarget ? 0.0f : std::log(sum) - (widen(row[target]) - most);
    __syncthreads();  // the target's logit is read before it becomes a gradient
    const float scale = target == kNoTarget ? 0.0f : chunk.scale;
    for (Index c = threadIdx.x; c < stride; c += blockDim.x) {
      float gradient = 0;
      if (c < vocabulary) {
        const float share = std::exp(widen(row[c]) - most) / sum;
        gradient = (c == target ? share - 1.0f : share) * scale;
      }
      put(row + c, gradient);
    }
  }
}

constexpr unsigned kRowThreads = 1024;  // few rows at a time: they stay in the cache
// Rows in shared memory: one is fetched while the other is computed. A block for each processor of
// an H100 or H200; a card with fewer runs them one after the other.
constexpr unsigned kKeptBlocks = 132;
constexpr std::size_t kMostKept = 112 * 1024;

// The largest value and the sum of exp(value - largest) of what a thread sees, in one pass.
struct Running {
  float most = -INFINITY, sum = 0;
  // The first `valid` values.
  template <class T>
  __device__ void add(const Held<T>& values, unsigned valid) {
    float high = most;
    for (unsigned j = 0; j < Pack<T>::kCount; ++j)
      if (j < valid) high = std::fmax(high, values[j]);
    if (high > most) sum *= fast_exp(most - high);
    most = high;
    for (unsigned j = 0; j < Pack<T>::kCount; ++j)
      if (j < valid) sum += fast_exp(values[j] - most);
  }
};

// Where a block reads its row from: `kept` or, if that is null, where the logits are. Packs of
// whole columns come first, then the one that the vocabulary ends in, then padding. A thread reads
// and writes every blockDim.x-th pack, and that of the target's makes the loss. Indices within a
// row have 32 bits.
template <class T>
__device__ void entropy_of_row(const CrossEntropy<T>& chunk, Index token, const T* kept,
                               float* scratch) {
  constexpr unsigned kCount = Pack<T>::kCount;
  const auto vocabulary = static_cast<unsigned>(chunk.vocabulary);
  const auto packs = static_cast<unsigned>(chunk.stride) / kCount;
  const unsigned whole = vocabulary / kCount, rest = vocabulary % kCount;
  T* row = chunk.logits + row_start(token, static_cast<Index>(chunk.stride));
  const T* from = kept == nullptr ? row : kept;
  const std::int64_t target = chunk.targets[token];
  Running mine;
  for (unsigned p = threadIdx.x; p < whole; p += blockDim.x)
    mine.add(hold(from + p * kCount), kCount);
  if (rest > 0 && threadIdx.x == whole % blockDim.x) mine.add(hold(from + whole * kCount), rest);
  const float most = block_max(mine.most, scratch);
  const float sum = block_sum(mine.sum > 0 ? mine.sum * fast_exp(mine.most - most) : 0.0f, scratch);
  const float scale = target == kNoTarget ? 0.0f : chunk.scale, factor = scale / sum;
  const unsigned place = target == kNoTarget ? ~0u : static_cast<unsigned>(target);
  if (target == kNoTarget ? threadIdx.x == 0 : threadIdx.x == place / kCount % blockDim.x)
    chunk.losses[token] = target == kNoTarget ? 0.0f : std::log(sum) - (widen(from[place]) - most);
  for (unsigned p = threadIdx.x; p < packs; p += blockDim.x) {
    const Held<T> logits = hold(from + p * kCount);
    const unsigned valid = p < whole ? kCount : p == whole ? rest : 0, mark = place - p * kCount;
    store(row + p * kCount, rounded<T>([&](unsigned j) {
            const float share = j < valid ? fast_exp(logits[j] - most) * factor : 0.0f;
            return j == mark ? share - scale : share;
          }));
  }
}

template <class T>
__global__ void cross_entropy_packs(CrossEntropy<T> chunk) {
  STOKER_SHARED(float, scratch, kRowThreads / kWarp);
  for (Index token = first_row(); token < static_cast<Index>(chunk.tokens); token += all_rows())
    entropy_of_row<T>(chunk, token, nullptr, scratch);
}

// A thread copies the packs that it reads, so it waits for no other.
__global__ void __launch_bounds__(kRowThreads) cross_entropy_kept(CrossEntropy<Bf16> chunk) {
  STOKER_SHARED(float, scratch, kRowThreads / kWarp);
  STOKER_DYNAMIC_SHARED(Bf16, kept);
  constexpr unsigned kCount = Pack<Bf16>::kCount;
  const auto tokens = static_cast<Index>(chunk.tokens), stride = static_cast<Index>(chunk.stride);
  const auto packs = static_cast<unsigned>(chunk.stride) / kCount;
  const auto fetch = [&](Index token, Bf16* to) {
    const Bf16* row = chunk.logits + row_start(token, stride);
    for (unsigned p = threadIdx.x; p < packs; p += blockDim.x)
      copy_beside(to + p * kCount, row + p * kCount, true);
  };
  Bf16 *these = kept, *next = kept + stride;
  fetch(first_row(), these);
  for (Index token = first_row(); token < tokens; token += all_rows()) {
    copies_done();
    if (token + all_rows() < tokens) fetch(token + all_rows(), next);
    entropy_of_row<Bf16>(chunk, token, these, scratch);
    Bf16* const done = these;
    these = next, next = done;
  }
}

template <class T>
GpuError run(const CrossEntropy<T>& chunk, Stream stream) {
  if (chunk.tokens == 0) return 0;
  const unsigned blocks = blocks_for(static_cast<Index>(chunk.tokens), 1);
  if constexpr (sizeof(T) == sizeof(Bf16)) {
    const std::size_t row = chunk.stride * sizeof(T);
    if (in_packs(chunk.stride, chunk.logits) && row <= kMostKept)
      return launch(Grid{std::min(blocks, kKeptBlocks), kRowThreads, 2 * row}, stream,
                    cross_entropy_kept, chunk);
  }
  if (in_packs(chunk.stride, chunk.logits))
    return launch(Grid{blocks, kRowThreads}, stream, cross_entropy_packs<T>, chunk);
  return launch(Grid{blocks}, stream, cross_entropy_kernel<T>, chunk);
}

}  // namespace

GpuError cross_entropy(const CrossEntropy<float>& chunk, Stream stream) {
  return run(chunk, stream);
}
GpuError cross_entropy(const CrossEntropy<Bf16>& chunk, Stream stream) {
  return run(chunk, stream);
}

std::size_t cross_entropy_chunk(std::size_t stride, std::size_t element_bytes, std::size_t bytes) {
  return std::max<std::size_t>(bytes / std::max<std::size_t>(stride * element_bytes, 1), 1);
}

double cross_entropy_reference(const std::vector<double>& logits, std::int64_t target,
                               std::vector<double>& gradient) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double x : logits) sum += std::exp(x - most);
  gradient.resize(logits.size());
  for (std::size_t c = 0; c < logits.size(); ++c)
    gradient[c] = std::exp(logits[c] - most) / sum - (static_cast<std::int64_t>(c) == target);
  return std::log(sum) + most - logits[static_cast<std::size_t>(target)];
}

}  // namespace stoker::kernels
