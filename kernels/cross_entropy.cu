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
// A processor has two rows in shared memory, so that one is read while the other is computed. With
// twice the threads a row takes longer (H200).
constexpr unsigned kKeptThreads = 512;
constexpr std::size_t kMostKept = 112 * 1024;
constexpr float kLog2E = 1.4426950408889634f;

// exp(x - most), shift being -most * kLog2E.
__device__ inline float exp_below(float x, float shift) {
  return fast_exp2(std::fma(x, kLog2E, shift));
}

// The largest value and the sum of exp(value - largest) of what a thread sees, in one pass.
struct Running {
  float most = -INFINITY, sum = 0;
  __device__ void raise(float high) {
    if (high <= most) return;
    sum *= fast_exp2((most - high) * kLog2E);
    most = high;
  }
  template <class T>
  __device__ void add(const Held<T>& values) {
    raise(largest(values));
    const float shift = -most * kLog2E;
    STOKER_UNROLL
    for (unsigned j = 0; j < Pack<T>::kCount; ++j) sum += exp_below(values[j], shift);
  }
  __device__ void add(float value) {
    raise(value);
    sum += exp_below(value, -most * kLog2E);
  }
};

// `from` is where a block reads its row: where the logits are, or a copy. Packs of whole columns
// come first, then columns of the pack that the vocabulary ends in, then padding. A thread reads
// and writes every blockDim.x-th pack, and that of the target's makes the loss. Indices within a
// row have 32 bits.
template <class T>
__device__ void entropy_of_row(const CrossEntropy<T>& chunk, Index token, const T* from,
                               float* scratch) {
  constexpr unsigned kCount = Pack<T>::kCount;
  const auto vocabulary = static_cast<unsigned>(chunk.vocabulary);
  const auto packs = static_cast<unsigned>(chunk.stride) / kCount;
  const unsigned whole = vocabulary / kCount;
  T* row = chunk.logits + row_start(token, static_cast<Index>(chunk.stride));
  const std::int64_t target = chunk.targets[token];
  const bool wanted = target != kNoTarget;
  const unsigned place = wanted ? static_cast<unsigned>(target) : 0;
  const bool owner = threadIdx.x == place / kCount % blockDim.x;
  const float logit = owner ? widen(from[place]) : 0.0f;
  Running mine;
  for (unsigned p = threadIdx.x; p < whole; p += blockDim.x) mine.add(hold(from + p * kCount));
  if (threadIdx.x == whole % blockDim.x)
    for (unsigned c = whole * kCount; c < vocabulary; ++c) mine.add(widen(from[c]));
  const float most = block_max(mine.most, scratch), shift = -most * kLog2E;
  const float sum = block_sum(mine.sum > 0 ? mine.sum * exp_below(mine.most, shift) : 0, scratch);
  if (owner) chunk.losses[token] = wanted ? std::log(sum) - (logit - most) : 0.0f;
  const float scale = wanted ? chunk.scale : 0.0f, factor = scale / sum;
  for (unsigned p = threadIdx.x; p < packs; p += blockDim.x) {
    const Held<T> logits = hold(from + p * kCount);
    const unsigned valid = p < whole ? kCount : p == whole ? vocabulary % kCount : 0;
    const auto share = [&](unsigned j) { return exp_below(logits[j], shift) * factor; };
    if (p < whole)
      store(row + p * kCount, rounded<T>(share));
    else
      store(row + p * kCount, rounded<T>([&](unsigned j) { return j < valid ? share(j) : 0.0f; }));
  }
  if (owner && wanted) put(row + place, exp_below(logit, shift) * factor - scale);
}

template <class T>
__global__ void cross_entropy_packs(CrossEntropy<T> chunk) {
  STOKER_SHARED(float, scratch, kRowThreads / kWarp);
  const auto tokens = static_cast<Index>(chunk.tokens), stride = static_cast<Index>(chunk.stride);
  for (Index token = first_row(); token < tokens; token += all_rows())
    entropy_of_row<T>(chunk, token, chunk.logits + row_start(token, stride), scratch);
}

// A thread copies the packs that it reads, so it waits for no other.
__global__ void __launch_bounds__(kKeptThreads, 2) cross_entropy_kept(CrossEntropy<Bf16> chunk) {
  STOKER_SHARED(float, scratch, kKeptThreads / kWarp);
  STOKER_DYNAMIC_SHARED(Bf16, kept);
  constexpr unsigned kCount = Pack<Bf16>::kCount;
  const auto tokens = static_cast<Index>(chunk.tokens), stride = static_cast<Index>(chunk.stride);
  const auto packs = static_cast<unsigned>(chunk.stride) / kCount;
  for (Index token = first_row(); token < tokens; token += all_rows()) {
    const Bf16* row = chunk.logits + row_start(token, stride);
    for (unsigned p = threadIdx.x; p < packs; p += blockDim.x)
      copy_beside(kept + p * kCount, row + p * kCount, true);
    copies_done();
    entropy_of_row<Bf16>(chunk, token, kept, scratch);
  }
}

template <class T>
GpuError run(const CrossEntropy<T>& chunk, Stream stream) {
  if (chunk.tokens == 0) return 0;
  const unsigned blocks = blocks_for(static_cast<Index>(chunk.tokens), 1);
  if constexpr (sizeof(T) == sizeof(Bf16)) {
    const std::size_t row = chunk.stride * sizeof(T);
    if (in_packs(chunk.stride, chunk.logits) && row <= kMostKept)
      return launch(Grid{blocks, kKeptThreads, row}, stream, cross_entropy_kept, chunk);
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
