// A product or quotient of two numbers that a double holds exactly is rounded once, as the parser's
// result is; what is not that simple goes to the parser.
#include "diagnose/parse/number_place.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "diagnose/input/line_scan.hpp"

namespace stoker::diagnose {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr double kNot = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint64_t kExact = std::uint64_t{1} << 53;
constexpr int kMostTens = 22;
constexpr std::array<double, kMostTens + 1> kTens{1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr auto kShift = [] {
  std::array<std::uint64_t, kMostFraction + 1> tens{1};
  for (std::size_t i = 1; i < tens.size(); ++i) tens[i] = 10 * tens[i - 1];
  return tens;
}();
constexpr int kMostMantissa = 18;  // digits

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

double scaled(std::uint64_t mantissa, int exponent, bool negative) {
  if (mantissa > kExact || exponent < -kMostTens || exponent > kMostTens) return kNot;
  const auto exact = static_cast<double>(mantissa);
  const double value = exponent < 0 ? exact / kTens[static_cast<std::size_t>(-exponent)]
                                    : exact * kTens[static_cast<std::size_t>(exponent)];
  return negative ? -value : value;
}

// The `count` digits, 1 to 8, in front of `end`; eight bytes there can be read. Neighbours are
// joined: to four numbers of two digits, then to two of four, then to one.
std::uint64_t digits_before(const char* end, unsigned count) {
  std::uint64_t digits = 0;
  std::memcpy(&digits, end - kMostDigits, sizeof digits);
  digits &= 0x0f0f0f0f0f0f0f0f & (~std::uint64_t{0} << 8 * (kMostDigits - count));
  digits = digits * 10 + (digits >> 8);
  constexpr std::uint64_t kPairs = 0x000000ff000000ff;
  const std::uint64_t high = (digits & kPairs) * ((std::uint64_t{1000000} << 32) + 100);
  const std::uint64_t low = (digits >> 16 & kPairs) * ((std::uint64_t{10000} << 32) + 1);
  return (high + low) >> 32;
}

// NaN: not this simple.
double simple_number(std::string_view text) {
  std::size_t i = 0;
  const bool negative = text.front() == '-';
  if (negative) ++i;
  std::uint64_t mantissa = 0;
  int exponent = 0, digits = 0;
  for (; i < text.size() && is_digit(text[i]); ++i, ++digits)
    mantissa = mantissa * 10 + static_cast<unsigned>(text[i] - '0');
  if (i < text.size() && text[i] == '.')
    for (++i; i < text.size() && is_digit(text[i]); ++i, ++digits, --exponent)
      mantissa = mantissa * 10 + static_cast<unsigned>(text[i] - '0');
  if (digits == 0 || digits > kMostMantissa) return kNot;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    const bool down = i < text.size() && text[i] == '-';
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    int power = 0;
    const std::size_t begin = i;
    for (; i < text.size() && i < begin + 3 && is_digit(text[i]); ++i)
      power = power * 10 + (text[i] - '0');
    if (i == begin) return kNot;
    exponent += down ? -power : power;
  }
  return i == text.size() ? scaled(mantissa, exponent, negative) : kNot;
}

// NaN: not this simple.
double plain_form(std::string_view line, const RealPlace& place) {
  const char* const begin = line.data() + place.at;
  const bool negative = *begin == '-';
  const char* part = begin + (negative ? 1 : 0) + place.whole;
  if (static_cast<std::size_t>(part - line.data()) < kMostDigits) return kNot;
  std::uint64_t mantissa = digits_before(part, place.whole);
  int exponent = 0;
  if (place.fraction > 0) {
    if (place.whole + place.fraction > kMostMantissa) return kNot;
    part += 1 + place.fraction;
    std::uint64_t low = 0;
    if (place.fraction > kMostDigits) {
      const unsigned high = place.fraction - static_cast<unsigned>(kMostDigits);
      low = digits_before(part - kMostDigits, high) * kShift[kMostDigits];
    }
    low += digits_before(part, std::min<unsigned>(place.fraction, kMostDigits));
    mantissa = mantissa * kShift[place.fraction] + low;
    exponent = -place.fraction;
  }
  if (place.power > 0) {  // behind an 'e' and a sign
    const auto power = static_cast<int>(digits_before(part + 2 + place.power, place.power));
    exponent += part[1] == '-' ? -power : power;
  }
  return scaled(mantissa, exponent, negative);
}

}  // namespace

double real_at(std::string_view line, const RealPlace& place) {
  if (place.whole > 0) {
    const double plain = plain_form(line, place);
    if (plain == plain) return plain;
  }
  const std::string_view text = line.substr(place.at, place.length);
  const double simple = simple_number(text);
  if (simple == simple) return simple;
  const auto number = scan_number(text);
  return number ? number->value : simple;
}

std::uint64_t count_at(std::string_view line, NumberPlace place) {
  if (place.length <= kMostDigits && place.at + place.length >= static_cast<int>(kMostDigits))
    return digits_before(line.data() + place.at + place.length, place.length);
  std::uint64_t count = 0;
  for (const char c : line.substr(place.at, place.length))
    count = count * 10 + static_cast<unsigned>(c - '0');
  return count;
}

}  // namespace stoker::diagnose
