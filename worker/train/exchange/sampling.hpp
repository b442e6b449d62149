// The next token from logits. Pure: the random number is a function of (seed, place).
#pragma once

#include <cstdint>
#include <vector>

#include "worker/train/data/indexed_dataset.hpp"

namespace stoker::train {

struct SamplingRule {
  double temperature = 1;   // 0: always the likeliest token
  std::uint64_t top_k = 0;  // only the k likeliest are drawn from; 0: all
  std::uint64_t seed = 0;
};

struct Drawn {
  TokenId token = 0;
  double log_probability = 0;  // by the model itself: temperature 1, all tokens
};

// `place` counts the tokens since the prompt. Equal logits: the lowest token first.
Drawn draw_token(const std::vector<double>& logits, const SamplingRule& rule, std::uint64_t place);

}  // namespace stoker::train
