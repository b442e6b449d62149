// Softmax cross entropy on the GPU, a chunk of tokens at a time: the caller makes the logits of a
// chunk, this kernel turns them into their gradient in place, the caller multiplies on. So the
// logits of all tokens never exist together, and never in f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/bf16.hpp"
#include "kernels/stream.hpp"

namespace stoker::kernels {

inline constexpr std::int64_t kNoTarget = -1;  // loss 0, gradient 0

template <class T>
struct CrossEntropy {
  T* logits =
      nullptr;  // [tokens][stride]; becomes the gradient; columns from `vocabulary` become 0
  const std::int64_t* targets = nullptr;  // [tokens], below vocabulary, or kNoTarget
  float* losses = nullptr;                // [tokens]
  std::size_t tokens = 0, vocabulary = 0, stride = 0;
  float scale = 1;  // of the gradient: 1 / tokens of the step
};
GpuError cross_entropy(const CrossEntropy<float>& chunk, Stream stream);
GpuError cross_entropy(const CrossEntropy<Bf16>& chunk, Stream stream);

// Tokens of a chunk whose logits take at most `bytes`; at least one.
std::size_t cross_entropy_chunk(std::size_t stride, std::size_t element_bytes, std::size_t bytes);

// In double, straight from the definition: the loss of one token and its gradient.
double cross_entropy_reference(const std::vector<double>& logits, std::int64_t target,
                               std::vector<double>& gradient);

}  // namespace stoker::kernels
