#include "worker/train/exchange/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/check.hpp"
#include "kernels/philox.hpp"

namespace stoker::train {
namespace {

constexpr std::uint32_t kUse = 0x73616d70;  // its own stream beside those of kernels/philox.hpp

// In [0, 1), of 53 bits.
double random_at(std::uint64_t seed, std::uint64_t place) {
  const auto words = kernels::philox(
      {static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(place >> 32), 0, 0},
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32) ^ kUse});
  const std::uint64_t bits = std::uint64_t{words[0]} << 32 | words[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

double log_sum(const std::vector<double>& logits, double largest) {
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return std::log(sum);
}

}  // namespace

Drawn draw_token(const std::vector<double>& logits, const SamplingRule& rule, std::uint64_t place) {
  STOKER_CHECK(!logits.empty(), "a model has tokens");
  std::vector<std::uint32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto likelier = [&](std::uint32_t a, std::uint32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  std::size_t kept = order.size();
  if (rule.temperature == 0)
    kept = 1;
  else if (rule.top_k > 0)
    kept = std::min<std::uint64_t>(kept, rule.top_k);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    likelier);
  const double largest = logits[order[0]];
  std::uint32_t chosen = order[0];
  if (kept > 1) {
    std::vector<double> until(kept);  // running sums of the weights
    double sum = 0;
    for (std::size_t i = 0; i < kept; ++i)
      until[i] = sum += std::exp((logits[order[i]] - largest) / rule.temperature);
    const double wanted = random_at(rule.seed, place) * sum;
    const auto at = std::upper_bound(until.begin(), until.end() - 1, wanted);
    chosen = order[static_cast<std::size_t>(at - until.begin())];
  }
  return {static_cast<TokenId>(chosen), logits[chosen] - largest - log_sum(logits, largest)};
}

}  // namespace stoker::train
