// AdamW, norm and digest on flat ranges against plain references in double.
#include <cmath>
#include <doctest/doctest.h>
#include <vector>

#include "kernels/adamw.hpp"
#include "kernels/global_norm.hpp"
#include "kernels/normal_init.hpp"
#include "kernels/state_digest.hpp"

using namespace stoker::kernels;

namespace {
std::vector<double> draw(std::uint64_t seed, std::size_t n) {
  std::vector<double> out(n);
  normal_init(seed, "x", 1.0, 0, n, out.data());
  return out;
}
}  // namespace

TEST_CASE("adamw: five steps -> the textbook's, written with its own corrections") {
  const std::size_t n = 37;
  std::vector<double> p = draw(1, n), m(n), v(n), want = p, wm(n), wv(n);
  AdamwStep step{0.01, 0.9, 0.95, 1e-8, 0.1, 0.5, 1};
  for (std::uint64_t t = 1; t <= 5; ++t) {
    const auto g = draw(100 + t, n);
    step.step = t;
    adamw(step, {g.data(), p.data(), m.data(), v.data(), nullptr, n});
    for (std::size_t i = 0; i < n; ++i) {
      const double x = 0.5 * g[i], time = static_cast<double>(t);
      wm[i] = 0.9 * wm[i] + 0.1 * x;
      wv[i] = 0.95 * wv[i] + 0.05 * x * x;
      const double mh = wm[i] / (1 - std::pow(0.9, time)), vh = wv[i] / (1 - std::pow(0.95, time));
      want[i] -= 0.01 * 0.1 * want[i];
      want[i] -= 0.01 * mh / (std::sqrt(vh) + 1e-8);
    }
  }
  for (std::size_t i = 0; i < n; ++i) CHECK(p[i] == doctest::Approx(want[i]).epsilon(1e-12));
}

TEST_CASE("adamw: a range cut in two -> bitwise the whole, and parameters rounded from masters") {
  const std::size_t n = 101;
  const auto source = draw(3, n);
  std::vector<float> g(source.begin(), source.end()), p(n, 1.0f), m(n), v(n), p2(n, 1.0f), m2(n),
      v2(n);
  std::vector<Bf16> half(n);
  const AdamwStep step{0.01, 0.9, 0.95, 1e-8, 0.1, 1.0, 1};
  adamw(step, {g.data(), p.data(), m.data(), v.data(), half.data(), n});
  adamw(step, {g.data(), p2.data(), m2.data(), v2.data(), nullptr, 40});
  adamw(step, {g.data() + 40, p2.data() + 40, m2.data() + 40, v2.data() + 40, nullptr, n - 40});
  CHECK(p == p2);
  CHECK(m == m2);
  CHECK(v == v2);
  for (std::size_t i = 0; i < n; ++i) CHECK(half[i].bits == to_bf16(p[i]).bits);
}

TEST_CASE("bf16: rounding -> to nearest even, NaN kept") {
  CHECK(to_bf16(1.0f).bits == 0x3f80);
  CHECK(to_bf16(1.00390625f).bits == 0x3f80);  // half way, even below
  CHECK(to_bf16(1.01171875f).bits == 0x3f82);  // half way, even above
  CHECK(std::isnan(to_float(to_bf16(std::nanf("")))));
}

TEST_CASE("sum_of_squares: 3-4-5 and clipping -> norm 5, scale clip/(norm+1e-6)") {
  const std::vector<float> values{3, 4};
  const double norm = std::sqrt(sum_of_squares(values.data(), 2));
  CHECK(norm == 5.0);
  CHECK(clip_scale(norm, 1.0) == 1.0 / (5.0 + 1e-6));
  CHECK(clip_scale(0.5, 1.0) == 1.0);
  CHECK(clip_scale(norm, 0.0) == 1.0);
}

TEST_CASE("StateDigest: shards in any order -> the whole; any changed bit or place -> another") {
  auto values = draw(5, 100);
  StateDigest whole, parts, second;
  whole.add("a", 0, values.data(), 100);
  second.add("a", 60, values.data() + 60, 40);
  parts.add("a", 0, values.data(), 60);
  second.merge(parts);
  CHECK(second == whole);
  CHECK(whole.hex().size() == 32);
  StateDigest renamed, swapped, flipped;
  renamed.add("b", 0, values.data(), 100);
  CHECK_FALSE(renamed == whole);
  std::swap(values[1], values[2]);
  swapped.add("a", 0, values.data(), 100);
  CHECK_FALSE(swapped == whole);
  std::swap(values[1], values[2]);
  values[50] = std::nextafter(values[50], 1e9);
  flipped.add("a", 0, values.data(), 100);
  CHECK_FALSE(flipped == whole);
}
