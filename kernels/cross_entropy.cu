// One block a token; the row is read three times and written once, in its own type.
#include <algorithm>
#include <cmath>

#include "kernels/cross_entropy.hpp"
#include "kernels/grid.hpp"

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

template <class T>
GpuError run(const CrossEntropy<T>& chunk, Stream stream) {
  if (chunk.tokens == 0) return 0;
  return launch(Grid{blocks_for(static_cast<Index>(chunk.tokens), 1)}, stream,
                cross_entropy_kernel<T>, chunk);
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
