// Dropout masks keyed by (seed, sample, layer, site, logical element): the same element of the same
// sample is dropped on any topology, in any order, and again after a restart. 32 random bits an
// element; the keep probability is exact to 2^-32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bf16.hpp"
#include "kernels/philox.hpp"
#include "kernels/stream.hpp"

namespace stoker::kernels {

enum class DropoutSite : std::uint32_t { Embedding, Attention, AttentionOut, MlpOut };

struct DropoutKey {
  std::uint64_t seed = 0;
  std::uint64_t sample = 0;  // position in the data order: each is consumed once in a training
  std::uint32_t layer = 0;   // below 2^24
  DropoutSite site = DropoutSite::Embedding;
};

// mask[i] = 1/(1-p) where logical element `first + i` is kept, else 0. 0 <= p < 1; `first` is a
// multiple of 4 and first + count <= 2^34.
void dropout_mask(const DropoutKey& key, double p, std::uint64_t first, std::size_t count,
                  float* mask);
void dropout_mask(const DropoutKey& key, double p, std::uint64_t first, std::size_t count,
                  double* mask);
void dropout_mask(const DropoutKey& key, double p, std::uint64_t first, std::size_t count,
                  Bf16* mask);

// The reference: one element at a time, straight from the definition.
bool dropout_keeps(const DropoutKey& key, double p, std::uint64_t element);

// What each thread of the GPU needs to draw a block of four words, made once for a launch.
struct DropoutDraw {
  PhiloxKey key;
  std::uint32_t place, sample_low, sample_high, threshold;

  // The words of elements 4 * block ... 4 * block + 3; an element is kept if its word is not below
  // the threshold.
  [[nodiscard]] STOKER_BOTH constexpr PhiloxCounter words(std::uint32_t block) const {
    return philox({block, place, sample_low, sample_high}, key);
  }
};
// The key's sample may differ for each: then the kernel sets it.
DropoutDraw dropout_draw(const DropoutKey& key, double p);

// On the GPU, bitwise as dropout_mask: out[i] = in[i] * mask[i], or the mask itself where `in` is
// null. In place is allowed. The backward pass is the same call on the gradient: no mask is kept.
GpuError dropout(const DropoutKey& key, double p, std::uint64_t first, std::size_t count,
                 const float* in, float* out, Stream stream);
GpuError dropout(const DropoutKey& key, double p, std::uint64_t first, std::size_t count,
                 const Bf16* in, Bf16* out, Stream stream);

// The masks of several samples, one after the other, `count` elements each: bitwise as
// dropout_mask. The device has the numbers of the samples, so a recorded launch draws for those
// that are there when it runs; the key's own is not used.
struct DropoutSamples {
  const std::uint64_t* ids = nullptr;
  std::size_t count = 0;
};
GpuError dropout_masks(const DropoutKey& key, double p, std::uint64_t first, std::size_t count,
                       const DropoutSamples& samples, float* out, Stream stream);
GpuError dropout_masks(const DropoutKey& key, double p, std::uint64_t first, std::size_t count,
                       const DropoutSamples& samples, Bf16* out, Stream stream);

}  // namespace stoker::kernels
