// Blending of data sets, Megatron's rule: sample k comes from the set that is furthest behind its
// share, argmax_i (w_i max(k, 1) - used_i), ties to the lowest i. No randomness: the mix of any
// stretch is right to within a sample.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/result.hpp"

namespace stoker::train {

struct Blend {
  std::vector<std::int16_t> source;  // which data set
  std::vector<std::int64_t> within;  // which of its samples
  std::vector<std::int64_t> used;    // samples drawn from each set in all
};

// `weights` need not be normalised; all above 0.
Blend blend(std::span<const double> weights, std::uint64_t samples);

// How many samples to ask a data set for: ceil(ceil(w size) (1 + surplus)), w normalised, as
// megatron-core 0.16 does (blended_megatron_dataset_builder.py).
std::uint64_t samples_to_ask(double normalised_weight, std::uint64_t samples,
                             double surplus = 0.005);

}  // namespace stoker::train
