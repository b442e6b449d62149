// Source: megatron/core/datasets/helpers.cpp, build_blending_indices.
#include "worker/train/data/blend.hpp"

#include <algorithm>
#include <cmath>

namespace stoker::train {

Blend blend(std::span<const double> weights, std::uint64_t samples) {
  double sum = 0;
  for (const double w : weights) sum += w;
  std::vector<double> shares;
  for (const double w : weights) shares.push_back(w / sum);
  Blend result;
  result.source.reserve(samples);
  result.within.reserve(samples);
  result.used.assign(weights.size(), 0);
  for (std::uint64_t k = 0; k < samples; ++k) {
    const auto drawn = static_cast<double>(std::max<std::uint64_t>(k, 1));
    std::size_t best = 0;
    double best_error = shares[0] * drawn - static_cast<double>(result.used[0]);
    for (std::size_t i = 1; i < shares.size(); ++i) {
      const double error = shares[i] * drawn - static_cast<double>(result.used[i]);
      if (error > best_error) {
        best_error = error;
        best = i;
      }
    }
    result.source.push_back(static_cast<std::int16_t>(best));
    result.within.push_back(result.used[best]++);
  }
  return result;
}

std::uint64_t samples_to_ask(double normalised_weight, std::uint64_t samples, double surplus) {
  const double share = std::ceil(normalised_weight * static_cast<double>(samples));
  return static_cast<std::uint64_t>(std::ceil(share * (1 + surplus)));
}

}  // namespace stoker::train
