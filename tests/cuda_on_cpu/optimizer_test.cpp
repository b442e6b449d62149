// AdamW, norm, digest, dropout and the embedding's gradient on the grid: the bits of the CPU.
#include "kernels/adamw.hpp"
#include "kernels/dropout.hpp"
#include "kernels/embedding_gradient.hpp"
#include "kernels/global_norm.hpp"
#include "kernels/grid.hpp"
#include "kernels/state_digest.hpp"
#include "tests/cuda_on_cpu/device.hpp"

using namespace stoker::kernels;

TEST_CASE("adamw.cu: three clipped steps at odd sizes -> bitwise the CPU's, parameters too") {
  for (const std::size_t n : {1u, 255u, 256u, 1003u}) {
    std::vector<float> p = draw(1, n), m(n), v(n);
    std::vector<Bf16> half(n);
    const Device<float> dp(p), dm(m), dv(v);
    const Device<Bf16> dhalf(n);
    for (std::uint64_t t = 1; t <= 3; ++t) {
      const auto g = draw(100 + t, n);
      const double squares = sum_of_squares(g.data(), n), clip = 0.5;
      AdamwStep step{0.01, 0.9, 0.95, 1e-8, 0.1, clip_scale(std::sqrt(squares), clip), t};
      adamw(step, {g.data(), p.data(), m.data(), v.data(), half.data(), n});
      step.gradient_scale = 1;  // the device finds it
      const Device<float> dg(g);
      const Device<double> dsquares(std::vector<double>{squares});
      const AdamwRange<float> range{dg.data(), dp.data(), dm.data(), dv.data(), dhalf.data(), n};
      CHECK(adamw(step, range, {}, {dsquares.data(), clip}, nullptr) == 0);
    }
    CHECK(dp.host() == p);
    CHECK(dm.host() == m);
    CHECK(dv.host() == v);
    CHECK(bits(dhalf.host()) == bits(half));
  }
}

TEST_CASE("adamw.cu: an unaligned range without bf16 parameters -> bitwise the CPU's") {
  const std::size_t n = 77;
  std::vector<float> g = draw(7, n + 3), p = draw(8, n + 3), m(n + 3), v(n + 3);
  const Device<float> dg(g), dp(p), dm(m), dv(v);
  const AdamwStep step{0.01, 0.9, 0.95, 1e-8, 0.1, 0.25, 9};
  adamw(step, {g.data() + 3, p.data() + 3, m.data() + 3, v.data() + 3, nullptr, n});
  const AdamwRange<float> range{dg.data() + 3, dp.data() + 3, dm.data() + 3,
                                dv.data() + 3, nullptr,       n};
  CHECK(adamw(step, range, {}, {}, nullptr) == 0);
  CHECK(dp.host() == p);
  CHECK(dv.host() == v);
}

TEST_CASE("global_norm.cu: sizes 1 to many blocks -> within 1e-14, the same bits in every order") {
  for (const std::size_t n : {1u, 257u, 4096u, 20011u}) {
    const auto values = draw(n, n);
    const double want = sum_of_squares(values.data(), n);
    const Device<float> in(values);
    double first = 0;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      set_order(seed);
      const Device<double> partials(kNormPartials), total(std::vector<double>{0});
      CHECK(add_sum_of_squares(in.data(), n, partials.data(), total.data(), nullptr) == 0);
      const double got = total.host()[0];
      CHECK(std::fabs(got - want) <= 1e-14 * want);
      if (seed == 1) first = got;
      CHECK(got == first);
    }
  }
}

TEST_CASE("state_digest.cu: shards in any order -> the CPU's digest, every bit") {
  const std::size_t n = 5003;
  const auto values = draw(3, n);
  StateDigest want;
  want.add("blocks.0.weight", 11, values.data(), n);
  const Device<float> in(values);
  const Device<DigestSums> sums(std::vector<DigestSums>(1));
  CHECK(add_digest("blocks.0.weight", 11 + 1000, in.data() + 1000, n - 1000, sums.data(),
                   nullptr) == 0);
  CHECK(add_digest("blocks.0.weight", 11, in.data(), 1000, sums.data(), nullptr) == 0);
  CHECK(sums.host()[0].low == want.low);
  CHECK(sums.host()[0].high == want.high);
}

TEST_CASE("dropout.cu: masks in both types, odd counts -> bitwise the CPU's") {
  const DropoutKey key{42, (std::uint64_t{7} << 32) + 5, 3, DropoutSite::MlpOut};
  for (const std::size_t n : {1u, 6u, 1024u, 2051u}) {
    std::vector<float> mask(n);
    std::vector<Bf16> half(n);
    dropout_mask(key, 0.3, 8, n, mask.data());
    dropout_mask(key, 0.3, 8, n, half.data());
    const Device<float> out(n);
    const Device<Bf16> small(n);
    CHECK(dropout(key, 0.3, 8, n, static_cast<const float*>(nullptr), out.data(), nullptr) == 0);
    CHECK(dropout(key, 0.3, 8, n, static_cast<const Bf16*>(nullptr), small.data(), nullptr) == 0);
    CHECK(out.host() == mask);
    CHECK(bits(small.host()) == bits(half));
  }
}

TEST_CASE("dropout.cu: applied in place at element 2^34 - 8 -> value times the CPU's mask") {
  const DropoutKey key{1, 2, 0, DropoutSite::Attention};
  const std::uint64_t first = (std::uint64_t{1} << 34) - 8;
  const auto values = draw(4, 8);
  std::vector<float> want(8);
  dropout_mask(key, 0.5, first, 8, want.data());
  for (std::size_t i = 0; i < 8; ++i) want[i] *= values[i];
  const Device<float> at(values);
  CHECK(dropout(key, 0.5, first, 8, at.data(), at.data(), nullptr) == 0);
  CHECK(at.host() == want);
}

TEST_CASE("embedding_gradient.cu: tokens that repeat, the last of 50257 -> bitwise the CPU's") {
  const std::size_t rows = 50257, width = 5;
  const std::vector<std::int64_t> tokens{7, 50256, 7, 0, 7, 50256, 3, 7, 0, 1};
  const auto upstream = draw(5, tokens.size() * width);
  std::vector<float> gradient(rows * width), start = draw(6, 8 * width);
  std::copy(start.begin(), start.end(), gradient.begin());
  const Device<std::int64_t> dtokens(tokens);
  const Device<std::uint32_t> order(embedding_order(tokens.data(), tokens.size()));
  const Device<float> dupstream(upstream), dgradient(gradient);
  embedding_gradient(tokens.data(), tokens.size(), width, upstream.data(), gradient.data());
  CHECK(embedding_gradient(dtokens.data(), order.data(), tokens.size(), width, dupstream.data(),
                           dgradient.data(), nullptr) == 0);
  CHECK(dgradient.host() == gradient);
}

TEST_CASE("embedding_gradient.cu: bf16 upstream, one token, more columns than threads -> the CPU") {
  const std::size_t width = 300;
  const std::vector<std::int64_t> tokens(9, 1);
  const auto upstream = narrow(draw(5, tokens.size() * width));
  std::vector<float> gradient(2 * width);
  const Device<std::int64_t> dtokens(tokens);
  const Device<std::uint32_t> order(embedding_order(tokens.data(), tokens.size()));
  const Device<Bf16> dupstream(upstream);
  const Device<float> dgradient(gradient);
  embedding_gradient(tokens.data(), tokens.size(), width, upstream.data(), gradient.data());
  CHECK(embedding_gradient(dtokens.data(), order.data(), tokens.size(), width, dupstream.data(),
                           dgradient.data(), nullptr) == 0);
  CHECK(dgradient.host() == gradient);
}
