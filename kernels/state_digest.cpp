// Element i of a tensor with key k is mixed with k + (i + 1) times the golden ratio; the mixing is
// splitmix64's (Steele, Lea, Flood 2014).
#include "kernels/state_digest.hpp"

#include <bit>

#include "common/hash.hpp"
#include "kernels/clones.hpp"
#include "kernels/digest_element.hpp"

namespace stoker::kernels {
namespace {

constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * kDigestMix1;
  z = (z ^ (z >> 27)) * kDigestMix2;
  return z ^ (z >> 31);
}

using Sums = DigestSums;

template <class Bits, class T>
[[gnu::always_inline]] inline Sums sum(std::uint64_t start, const T* values, std::size_t count) {
  Sums sums;
  for (std::size_t i = 0; i < count; ++i)
    digest_element(start, i, std::bit_cast<Bits>(values[i]), sums);
  return sums;
}

STOKER_CLONES_WIDE Sums sum_f32(std::uint64_t start, const float* values, std::size_t count) {
  return sum<std::uint32_t>(start, values, count);
}

STOKER_CLONES_WIDE Sums sum_f64(std::uint64_t start, const double* values, std::size_t count) {
  return sum<std::uint64_t>(start, values, count);
}

}  // namespace

std::uint64_t digest_start(std::string_view name, std::uint64_t first) {
  return xxh3_64(name) + (first + 1) * kDigestStep;
}

void StateDigest::add(std::string_view name, std::uint64_t first, const float* values,
                      std::size_t count) {
  const Sums sums = sum_f32(digest_start(name, first), values, count);
  low += sums.low;
  high += sums.high;
}

void StateDigest::add(std::string_view name, std::uint64_t first, const double* values,
                      std::size_t count) {
  const Sums sums = sum_f64(digest_start(name, first), values, count);
  low += sums.low;
  high += sums.high;
}

void StateDigest::add(std::string_view name, std::uint64_t scalar) {
  const std::uint64_t z = mix(scalar ^ mix(xxh3_64(name)));
  low += z;
  high += (z ^ (z >> 32)) * kDigestMix1;
}

void StateDigest::merge(const StateDigest& other) {
  low += other.low;
  high += other.high;
}

std::string StateDigest::hex() const {
  return hex64(high) + hex64(low);
}

}  // namespace stoker::kernels
