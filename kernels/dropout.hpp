// Dropout masks keyed by (seed, sample, layer, site, logical element): the same element of the same
// sample is dropped on any topology, in any order, and again after a restart. 32 random bits an
// element; the keep probability is exact to 2^-32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bf16.hpp"

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

}  // namespace stoker::kernels
