// Element i of a tensor with key k is mixed with k + (i + 1) times the golden ratio; the mixing is
// splitmix64's (Steele, Lea, Flood 2014).
#include "kernels/state_digest.hpp"

#include <bit>

#include "common/hash.hpp"

namespace stoker::kernels {
namespace {

constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15, kMix1 = 0xBF58476D1CE4E5B9,
                        kMix2 = 0x94D049BB133111EB;

constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * kMix1;
  z = (z ^ (z >> 27)) * kMix2;
  return z ^ (z >> 31);
}

template <class Bits, class T>
void sum(StateDigest& digest, std::uint64_t key, std::uint64_t first, const T* values,
         std::size_t count) {
  std::uint64_t low = 0, high = 0;
  std::uint64_t place = key + first * kStep;
  for (std::size_t i = 0; i < count; ++i) {
    place += kStep;
    std::uint64_t z = std::uint64_t{std::bit_cast<Bits>(values[i])} ^ place;
    z = (z ^ (z >> 32)) * kMix1;
    z = (z ^ (z >> 29)) * kMix2;
    low += z;
    high += (z ^ (z >> 32)) * kMix1;
  }
  digest.low += low;
  digest.high += high;
}

}  // namespace

void StateDigest::add(std::string_view name, std::uint64_t first, const float* values,
                      std::size_t count) {
  sum<std::uint32_t>(*this, xxh3_64(name), first, values, count);
}

void StateDigest::add(std::string_view name, std::uint64_t first, const double* values,
                      std::size_t count) {
  sum<std::uint64_t>(*this, xxh3_64(name), first, values, count);
}

void StateDigest::add(std::string_view name, std::uint64_t scalar) {
  const std::uint64_t z = mix(scalar ^ mix(xxh3_64(name)));
  low += z;
  high += (z ^ (z >> 32)) * kMix1;
}

void StateDigest::merge(const StateDigest& other) {
  low += other.low;
  high += other.high;
}

std::string StateDigest::hex() const {
  return hex64(high) + hex64(low);
}

}  // namespace stoker::kernels
