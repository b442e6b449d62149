// xoshiro256**, seeded by splitmix64.
#include "sim/universe/random.hpp"

#include <bit>

namespace stoker::sim {

Random::Random(std::uint64_t seed) {
  for (std::uint64_t& word : state_) {
    seed += 0x9e3779b97f4a7c15ull;
    std::uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    word = z ^ (z >> 31);
  }
}

std::uint64_t Random::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Random::below(std::uint64_t bound) {
  if (bound <= 1) return 0;
  const std::uint64_t unfair = (0 - bound) % bound;  // values below it would come too often
  for (;;)
    if (const std::uint64_t value = next(); value >= unfair) return value % bound;
}

Duration Random::between(Duration low, Duration high) {
  if (high <= low) return low;
  return low + Duration(static_cast<std::int64_t>(
                   below(static_cast<std::uint64_t>((high - low).count()) + 1)));
}

// Runs of falling numbers: the first number of a run of odd length is the fraction, the number of
// runs before it the whole part.
Duration Random::exponential(Duration mean) {
  for (std::int64_t whole = 0; whole < 64; ++whole) {
    const std::uint64_t first = next() >> 1;
    std::uint64_t last = first;
    bool odd = true;
    for (std::uint64_t n = next() >> 1; n < last; n = next() >> 1) {
      last = n;
      odd = !odd;
    }
    if (!odd) continue;
    const auto mean_ns = static_cast<std::uint64_t>(mean.count());
    const std::uint64_t fraction = (mean_ns >> 31) * (first >> 32) + (first >> 32) / 2;
    return Duration(whole * mean.count() + static_cast<std::int64_t>(fraction));
  }
  return 64 * mean;
}

}  // namespace stoker::sim
