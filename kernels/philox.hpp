// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): a pure
// function from (key, counter) to 128 random bits. Nothing has a state, so what is drawn does not
// depend on the order of drawing, on the topology, or on what was drawn before a restart.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/both.hpp"

namespace stoker::kernels {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

inline constexpr std::uint32_t kPhiloxM0 = 0xD2511F53, kPhiloxM1 = 0xCD9E8D57;
inline constexpr std::uint32_t kPhiloxW0 = 0x9E3779B9, kPhiloxW1 = 0xBB67AE85;

STOKER_BOTH constexpr PhiloxCounter philox(PhiloxCounter c, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{kPhiloxM0} * c[0];
    const std::uint64_t p1 = std::uint64_t{kPhiloxM1} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += kPhiloxW0;
    key[1] += kPhiloxW1;
  }
  return c;
}

// One key for each use, so that dropout and initialisation of one seed never share a stream.
enum class PhiloxUse : std::uint32_t { Dropout = 0x64726f70, Initialisation = 0x696e6974 };

STOKER_BOTH constexpr PhiloxKey philox_key(std::uint64_t seed, PhiloxUse use) {
  return {static_cast<std::uint32_t>(seed),
          static_cast<std::uint32_t>(seed >> 32) ^ static_cast<std::uint32_t>(use)};
}

}  // namespace stoker::kernels
