// Causal attention on the GPU without the matrix of scores (Dao et al. 2022, FlashAttention), with
// the counter-based dropout: element (head * sequence + query) * sequence + key of a sample's mask,
// as on the CPU, drawn again in the backward pass. All pointers are of the device, except the
// reference's. No atomic additions: two runs give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/bf16.hpp"
#include "kernels/dropout.hpp"
#include "kernels/stream.hpp"

namespace stoker::kernels {

inline constexpr std::size_t kAttentionWidth = 128;  // of a head, at most

struct AttentionShape {
  std::size_t samples = 0, heads = 0, sequence = 0, width = 0;
};

// The samples' numbers key the masks; null: no dropout. `draw` is dropout_draw of any sample.
struct AttentionDropout {
  const std::uint64_t* samples = nullptr;
  DropoutDraw draw{};
  float kept = 1;  // 1 / (1 - p)
};

// Tensors are [samples][heads][sequence][width], rows [samples][heads][sequence].
template <class T>
struct AttentionForward {
  const T* query = nullptr;
  const T* key = nullptr;
  const T* value = nullptr;
  T* out = nullptr;
  float* log_sum = nullptr;  // row: log of the sum of exp(score); the backward pass needs it
  AttentionShape shape;
  AttentionDropout dropout;
};
GpuError attention(const AttentionForward<float>& attention, Stream stream);
GpuError attention(const AttentionForward<Bf16>& attention, Stream stream);

template <class T>
struct AttentionBackward {
  AttentionForward<T> forward;  // as it was run
  const T* upstream = nullptr;
  T* query = nullptr;
  T* key = nullptr;
  T* value = nullptr;      // gradients, written
  float* delta = nullptr;  // rows of workspace
};
GpuError attention_backward(const AttentionBackward<float>& attention, Stream stream);
GpuError attention_backward(const AttentionBackward<Bf16>& attention, Stream stream);

// In double, straight from the definition, of one head; mask is [sequence][sequence], 1 or
// 1 / (1 - p) where an element is kept.
struct AttentionReference {
  std::vector<double> out, query, key, value;
};
AttentionReference attention_reference(const std::vector<double>& query,
                                       const std::vector<double>& key,
                                       const std::vector<double>& value,
                                       const std::vector<double>& mask,
                                       const std::vector<double>& upstream, std::size_t width);

}  // namespace stoker::kernels
