// Drawing tokens: a pure function of logits, rule and place.
#include "worker/train/exchange/sampling.hpp"

#include <array>
#include <cmath>
#include <doctest/doctest.h>

using namespace stoker::train;

TEST_CASE("sampling: temperature 0 -> the likeliest, the lowest of equals") {
  CHECK(draw_token({0, 3, 3, 1}, {0, 0, 5}, 9).token == 1);
  const double sum = std::exp(0.0) + 2 * std::exp(3.0) + std::exp(1.0);
  CHECK(draw_token({0, 3, 3, 1}, {0, 0, 5}, 9).log_probability ==
        doctest::Approx(3 - std::log(sum)));
}

TEST_CASE("sampling: as often as their probability says, within the k likeliest") {
  const std::vector<double> logits{std::log(0.1), std::log(0.2), std::log(0.3), std::log(0.4)};
  constexpr int kDraws = 20000;
  std::array<int, 4> all{}, two{}, cold{};
  for (int i = 0; i < kDraws; ++i) {
    const auto place = static_cast<std::uint64_t>(i);
    ++all[static_cast<std::size_t>(draw_token(logits, {1, 0, 7}, place).token)];
    ++two[static_cast<std::size_t>(draw_token(logits, {1, 2, 7}, place).token)];
    ++cold[static_cast<std::size_t>(draw_token(logits, {0.5, 0, 7}, place).token)];
  }
  const auto near = [](int count, double p) { return std::abs(count - p * kDraws) < 400; };
  for (std::size_t i = 0; i < 4; ++i) CHECK(near(all[i], 0.1 * static_cast<double>(i + 1)));
  CHECK(two[0] + two[1] == 0);
  CHECK(near(two[2], 3.0 / 7));
  CHECK(near(cold[3], 16.0 / 30));
}

TEST_CASE("sampling: the same seed and place draw the same, other seeds other tokens") {
  const std::vector<double> logits(50, 1.0);
  int differ = 0;
  for (std::uint64_t place = 0; place < 100; ++place) {
    const auto token = draw_token(logits, {1, 0, 1}, place).token;
    CHECK(draw_token(logits, {1, 0, 1}, place).token == token);
    differ += draw_token(logits, {1, 0, 2}, place).token != token ? 1 : 0;
  }
  CHECK(differ > 80);
}
