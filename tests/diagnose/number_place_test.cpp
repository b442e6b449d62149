// A number read where it is known to stand is the number that the parser reads, bit for bit.
#include "diagnose/parse/number_place.hpp"

#include <bit>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <random>

#include "diagnose/input/line_scan.hpp"

using namespace stoker::diagnose;

namespace {

std::mt19937_64 draw(1);

std::string digits(std::size_t count) {
  std::string text;
  while (text.size() < count) text += static_cast<char>('0' + draw() % 10);
  return text;
}

// The number's text in a line, `before` bytes behind its begin.
void read_both(std::size_t before, std::size_t whole, std::size_t fraction, std::size_t power) {
  std::string text = draw() % 2 == 0 ? "-" : "";
  text += digits(whole);
  if (fraction > 0) text += "." + digits(fraction);
  if (power > 0)
    text += fmt::format("{}{}{}", draw() % 2 == 0 ? 'e' : 'E', draw() % 2 == 0 ? '-' : '+',
                        digits(power));
  const std::string line = std::string(before, '7') + text + " |";
  RealPlace place;
  place.at = static_cast<std::uint16_t>(before);
  place.length = static_cast<std::uint16_t>(text.size());
  place.whole = static_cast<std::uint8_t>(whole);
  place.fraction = static_cast<std::uint8_t>(fraction);
  place.power = static_cast<std::uint8_t>(power);
  const auto parsed = scan_number(text);
  REQUIRE_MESSAGE(parsed, text);
  CHECK_MESSAGE(std::bit_cast<std::uint64_t>(real_at(line, place)) ==
                    std::bit_cast<std::uint64_t>(parsed->value),
                text);
}

}  // namespace

TEST_CASE("number_place: of any width -> what the parser reads") {
  for (std::size_t whole = 1; whole <= kMostDigits; ++whole)
    for (std::size_t fraction = 0; fraction <= kMostFraction; ++fraction)
      for (std::size_t power = 0; power <= kMostPower; ++power)
        for (const std::size_t before : {0, 1, 7, 8, 100})
          for (int i = 0; i < 5; ++i) read_both(before, whole, fraction, power);
}
