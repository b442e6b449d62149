// One element of the state digest, for the loops of the CPU and the threads of the GPU alike. Its
// place is start + i * kDigestStep: no chain between elements.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/both.hpp"

namespace stoker::kernels {

inline constexpr std::uint64_t kDigestStep = 0x9E3779B97F4A7C15, kDigestMix1 = 0xBF58476D1CE4E5B9,
                               kDigestMix2 = 0x94D049BB133111EB;

struct DigestSums {
  unsigned long long low = 0, high = 0;  // the type of CUDA's 64-bit atomicAdd
};

STOKER_BOTH constexpr void digest_element(std::uint64_t start, std::uint64_t i, std::uint64_t bits,
                                          DigestSums& sums) {
  std::uint64_t z = bits ^ (start + i * kDigestStep);
  z = (z ^ (z >> 32)) * kDigestMix1;
  z = (z ^ (z >> 29)) * kDigestMix2;
  sums.low += z;
  sums.high += (z ^ (z >> 32)) * kDigestMix1;
}

}  // namespace stoker::kernels
