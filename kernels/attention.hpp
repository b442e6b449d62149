// Causal attention on the GPU without the matrix of scores (Dao et al. 2022, FlashAttention), with
// the counter-based dropout: element (head * sequence + query) * sequence + key of a sample's mask,
// as on the CPU, drawn again in the backward pass. All pointers are of the device, except the
// reference's. No atomic additions: two runs give the same bits. bf16 goes over tensor cores where
// in_tiles() says so (attention_tiles.hpp), all else through plain f32 arithmetic (attention.cu).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/bf16.hpp"
#include "kernels/dropout.hpp"
#include "kernels/stream.hpp"

namespace stoker::kernels {

inline constexpr std::size_t kAttentionWidth = 128;    // of a head, at most
inline constexpr std::size_t kAttentionHeads = 65535;  // of all samples together, at most

struct AttentionShape {
  std::size_t samples = 0, heads = 0, sequence = 0, width = 0;
};

// The samples' numbers key the masks; null: no dropout. `draw` is dropout_draw of any sample.
struct AttentionDropout {
  const std::uint64_t* samples = nullptr;
  DropoutDraw draw{};
  float kept = 1;              // 1 / (1 - p)
  std::size_t first_head = 0;  // of the model's heads: where the others are other ranks'
};

// Elements from one sample, head or row of a tensor to the next; width elements of a row lie one
// after the other. Zeros: [samples][heads][sequence][width].
struct AttentionSteps {
  std::size_t sample = 0, head = 0, row = 0;
};

// Numbers of rows are [samples][heads][sequence].
template <class T>
struct AttentionForward {
  const T* query = nullptr;
  const T* key = nullptr;
  const T* value = nullptr;
  T* out = nullptr;
  float* log_sum = nullptr;  // row: log of the sum of exp(score); the backward pass needs it
  AttentionShape shape;
  AttentionDropout dropout;
  AttentionSteps inputs{}, outs{};  // of query, key and value; of out
};
GpuError attention(const AttentionForward<float>& attention, Stream stream);
GpuError attention(const AttentionForward<Bf16>& attention, Stream stream);

template <class T>
struct AttentionBackward {
  AttentionForward<T> forward;  // as it was run
  const T* upstream = nullptr;  // in the steps of `out`
  T* query = nullptr;           // gradients, written in the steps of the inputs
  T* key = nullptr;
  T* value = nullptr;
  float* delta = nullptr;  // rows of workspace
};
GpuError attention_backward(const AttentionBackward<float>& attention, Stream stream);
GpuError attention_backward(const AttentionBackward<Bf16>& attention, Stream stream);

// Whether bf16 of this shape goes over tensor cores, given addresses and steps of whole packs of 16
// bytes.
constexpr bool in_tiles(const AttentionShape& shape) {
  return shape.width % 8 == 0 && shape.width <= kAttentionWidth &&
         shape.samples * shape.heads <= kAttentionHeads;
}

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
