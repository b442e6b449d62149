// NumberPlace: where in a line a number stands, and how it is written. Of lines that differ in
// their digits alone the places stay: their numbers are read without a search, eight digits at
// once.
#pragma once

#include <cstdint>
#include <string_view>

namespace stoker::diagnose {

struct NumberPlace {
  std::uint16_t at = 0, length = 0;  // bytes, with the sign; length 0: the line does not tell it
};

// "-12.5E-03": two digits, one behind the point, two of the power.
struct RealPlace : NumberPlace {
  std::uint8_t whole = 0;  // 0: it is written in another way
  std::uint8_t fraction = 0, power = 0;
};
// Digits of a RealPlace.
inline constexpr std::size_t kMostDigits = 8, kMostFraction = 2 * kMostDigits, kMostPower = 2;

// As scan_number reads it, bit for bit; NaN: there is no number.
double real_at(std::string_view line, const RealPlace& place);
// `place` holds digits only, 19 at most.
std::uint64_t count_at(std::string_view line, NumberPlace place);

}  // namespace stoker::diagnose
