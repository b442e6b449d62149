// bfloat16 as raw 16 bits: the upper half of a float. Rounds to nearest even; NaN stays NaN.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/both.hpp"

namespace stoker::kernels {

struct Bf16 {
  std::uint16_t bits = 0;
};

STOKER_BOTH constexpr float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

STOKER_BOTH constexpr Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return Bf16{static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return Bf16{static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace stoker::kernels
