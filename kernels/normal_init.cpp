// One Philox block gives elements 2k and 2k+1: two 64-bit uniforms, one Box-Muller pair.
#include "kernels/normal_init.hpp"

#include <cmath>
#include <numbers>
#include <utility>

#include "common/hash.hpp"
#include "kernels/philox.hpp"

namespace stoker::kernels {
namespace {

double uniform(std::uint32_t high, std::uint32_t low) {  // in (0, 1), 53 bits
  const std::uint64_t bits = (std::uint64_t{high} << 32 | low) >> 11;
  return (static_cast<double>(bits) + 0.5) * 0x1p-53;
}

std::pair<double, double> normal_pair(PhiloxKey key, std::uint64_t name, std::uint64_t block) {
  const PhiloxCounter w =
      philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
              static_cast<std::uint32_t>(name), static_cast<std::uint32_t>(name >> 32)},
             key);
  const double radius = std::sqrt(-2.0 * std::log(uniform(w[0], w[1])));
  const double angle = 2.0 * std::numbers::pi * uniform(w[2], w[3]);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

template <class T>
void fill(std::uint64_t seed, std::string_view name, double deviation, std::uint64_t first,
          std::size_t count, T* out) {
  const PhiloxKey key = philox_key(seed, PhiloxUse::Initialisation);
  const std::uint64_t hash = xxh3_64(name);
  for (std::size_t i = 0; i < count;) {
    const std::uint64_t element = first + i;
    const auto [even, odd] = normal_pair(key, hash, element / 2);
    if (element % 2 == 0) {
      out[i++] = static_cast<T>(deviation * even);
      if (i == count) break;
    }
    out[i++] = static_cast<T>(deviation * odd);
  }
}

}  // namespace

void normal_init(std::uint64_t seed, std::string_view name, double standard_deviation,
                 std::uint64_t first, std::size_t count, float* out) {
  fill(seed, name, standard_deviation, first, count, out);
}

void normal_init(std::uint64_t seed, std::string_view name, double standard_deviation,
                 std::uint64_t first, std::size_t count, double* out) {
  fill(seed, name, standard_deviation, first, count, out);
}

}  // namespace stoker::kernels
