// LayerNorm, GELU and cross entropy on the grid against their references in double: f32 within
// 1e-5 of the largest value, bf16 within one unit in the last place beside that.
#include "kernels/bias_gelu.hpp"
#include "kernels/column_sums.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/layer_norm.hpp"
#include "tests/cuda_on_cpu/device.hpp"

using namespace stoker::kernels;

namespace {

template <class T>
std::vector<T> as(const std::vector<float>& values) {
  if constexpr (std::is_same_v<T, Bf16>)
    return narrow(values);
  else
    return values;
}

template <class T>
void norm_against_reference(std::size_t rows, std::size_t width) {
  constexpr bool small = std::is_same_v<T, Bf16>;
  const std::size_t n = rows * width;
  const auto residual = as<T>(draw(1, n)), value = as<T>(draw(2, n)),
             weight = as<T>(draw(3, width)), bias = as<T>(draw(4, width)),
             upstream = as<T>(draw(5, n)), beside = as<T>(draw(6, n));
  const Device<T> r(residual), v(value), w(weight), b(bias), up(upstream), other(beside), sum(n),
      normed(n), gradient(n);
  const Device<float> mean(rows), rstd(rows), dw{std::vector<float>(width, 0.5f)},
      db{std::vector<float>(width)}, space(2 * column_workspace(width));
  CHECK(layer_norm({r.data(), v.data(), w.data(), b.data(), sum.data(), normed.data(), mean.data(),
                    rstd.data(), rows, width},
                   nullptr) == 0);
  CHECK(
      layer_norm_backward({up.data(), other.data(), sum.data(), w.data(), mean.data(), rstd.data(),
                           gradient.data(), dw.data(), db.data(), space.data(), rows, width},
                          nullptr) == 0);
  auto total = wide(residual);
  const auto added = wide(value), besides = wide(beside);
  for (std::size_t i = 0; i < n; ++i) total[i] += added[i];
  CHECK(off(wide(sum.host()), total, small) <= 1);
  auto want = layer_norm_reference(wide(sum.host()), wide(weight), wide(bias), wide(upstream));
  CHECK(off(wide(normed.host()), want.normed, small) <= 1);
  CHECK(off(wide(mean.host()), want.mean, false) <= 1);
  CHECK(off(wide(rstd.host()), want.rstd, false) <= 1);
  for (std::size_t i = 0; i < n; ++i) want.gradient[i] += besides[i];
  for (double& x : want.weight_gradient) x += 0.5;
  CHECK(off(wide(gradient.host()), want.gradient, small) <= 1);
  CHECK(off(wide(dw.host()), want.weight_gradient, false) <= 1);
  CHECK(off(wide(db.host()), want.bias_gradient, false) <= 1);
}

template <class T>
void gelu_against_reference(std::size_t rows, std::size_t width) {
  constexpr bool small = std::is_same_v<T, Bf16>;
  const std::size_t n = rows * width;
  const auto x = as<T>(draw(1, n, 2.0)), bias = as<T>(draw(2, width)), upstream = as<T>(draw(3, n));
  const Device<T> dx(x), dbias(bias), gradient(upstream), out(n);
  const Device<float> bias_gradient{std::vector<float>(width)}, space(column_workspace(width));
  CHECK(bias_gelu(dx.data(), dbias.data(), rows, width, out.data(), nullptr) == 0);
  CHECK(bias_gelu_backward({gradient.data(), dx.data(), dbias.data(), gradient.data(),
                            bias_gradient.data(), space.data(), rows, width},
                           nullptr) == 0);
  std::vector<double> want(n), slope(n), columns(width);
  const auto stored = wide(gradient.host()), in = wide(x), add = wide(bias), up = wide(upstream);
  for (std::size_t i = 0; i < n; ++i) {
    const double v = in[i] + add[i % width];
    want[i] = gelu_reference(v);
    slope[i] = gelu_slope_reference(v) * up[i];
    columns[i % width] += stored[i];
  }
  CHECK(off(wide(out.host()), want, small) <= 1);
  CHECK(off(stored, slope, small) <= 1);
  CHECK(off(wide(bias_gradient.host()), columns, false) <= 1);
}

template <class T>
void entropy_against_reference(std::size_t tokens, std::size_t vocabulary, std::size_t stride) {
  constexpr bool small = std::is_same_v<T, Bf16>;
  const auto logits = as<T>(draw(1, tokens * stride, 3.0));
  std::vector<std::int64_t> targets(tokens);
  for (std::size_t i = 0; i < tokens; ++i)
    targets[i] = i == 1 ? kNoTarget : static_cast<std::int64_t>(vocabulary - 1 - i % vocabulary);
  const Device<T> at(logits);
  const Device<std::int64_t> dtargets(targets);
  const Device<float> losses(tokens);
  const float scale = 0.25f;
  CHECK(
      cross_entropy({at.data(), dtargets.data(), losses.data(), tokens, vocabulary, stride, scale},
                    nullptr) == 0);
  const auto got = wide(at.host()), values = wide(logits);
  for (std::size_t i = 0; i < tokens; ++i) {
    const auto row = values.begin() + static_cast<std::ptrdiff_t>(i * stride);
    const std::vector<double> mine(row, row + static_cast<std::ptrdiff_t>(vocabulary));
    std::vector<double> want(vocabulary);
    double loss = 0;
    if (targets[i] != kNoTarget) loss = cross_entropy_reference(mine, targets[i], want);
    for (double& x : want) x *= static_cast<double>(scale);
    want.resize(stride);
    const auto from = got.begin() + static_cast<std::ptrdiff_t>(i * stride);
    CHECK(off({from, from + static_cast<std::ptrdiff_t>(stride)}, want, small) <= 1);
    CHECK(std::fabs(static_cast<double>(losses.host()[i]) - loss) <= 1e-5 * std::max(1.0, loss));
  }
}

}  // namespace

TEST_CASE("layer_norm.cu: one row, one column, odd shapes, two types -> within the tolerance") {
  for (const auto& [rows, width] :
       {std::pair{3u, 7u}, {1u, 300u}, {70u, 33u}, {5u, 768u}, {9u, 1600u}, {2u, 2560u}}) {
    norm_against_reference<float>(rows, width);
    norm_against_reference<Bf16>(rows, width);
  }
  norm_against_reference<Bf16>(2400, 1032);  // a team sees rows three times
}

TEST_CASE("layer_norm.cu: a width of 1 -> the bias, and gradients that are finite") {
  const Device<float> x(std::vector<float>{3, -4}), one(std::vector<float>{2}),
      bias(std::vector<float>{0.5f}), out(2), mean(2), rstd(2);
  CHECK(layer_norm({x.data(), nullptr, one.data(), bias.data(), nullptr, out.data(), mean.data(),
                    rstd.data(), 2, 1},
                   nullptr) == 0);
  CHECK(out.host() == std::vector<float>{0.5f, 0.5f});
  CHECK(mean.host() == std::vector<float>{3, -4});
}

TEST_CASE("layer_norm.cu: every order of threads -> the same bits") {
  const std::size_t rows = 4, width = 300;
  const Device<float> x(draw(1, rows * width)), w(draw(2, width)), b(draw(3, width)),
      out(rows * width), mean(rows), rstd(rows);
  std::vector<float> first;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    set_order(seed);
    CHECK(layer_norm({x.data(), nullptr, w.data(), b.data(), nullptr, out.data(), mean.data(),
                      rstd.data(), rows, width},
                     nullptr) == 0);
    if (seed == 1) first = out.host();
    CHECK(out.host() == first);
  }
}

TEST_CASE("bias_gelu.cu: shapes of 1, odd, more rows than groups -> within the tolerance") {
  for (const auto& [rows, width] :
       {std::pair{1u, 1u}, {3u, 7u}, {130u, 5u}, {2u, 600u}, {30u, 520u}}) {
    gelu_against_reference<float>(rows, width);
    gelu_against_reference<Bf16>(rows, width);
  }
}

TEST_CASE("column_sums.cu: odd shapes, whole packs, more rows than groups -> the sums, added") {
  for (const auto& [rows, width] : {std::pair{1u, 1u}, {3u, 7u}, {2200u, 8u}, {33u, 520u}}) {
    const auto values = narrow(draw(1, std::size_t{rows} * width));
    const Device<Bf16> in(values);
    const Device<float> sums{std::vector<float>(width, 0.25f)}, space(column_workspace(width));
    CHECK(add_column_sums(in.data(), rows, width, space.data(), sums.data(), nullptr) == 0);
    std::vector<double> want(width, 0.25);
    const auto wide_values = wide(values);
    for (std::size_t i = 0; i < values.size(); ++i) want[i % width] += wide_values[i];
    CHECK(off(wide(sums.host()), want, false) <= 1);
  }
}

TEST_CASE("cross_entropy.cu: vocabulary 1, odd, 50257 padded to 50304 -> within the tolerance") {
  entropy_against_reference<float>(1, 1, 1);
  entropy_against_reference<float>(5, 37, 40);
  entropy_against_reference<Bf16>(5, 300, 300);
  entropy_against_reference<float>(2, 50257, 50304);
  entropy_against_reference<Bf16>(1, 50257, 50304);
}

TEST_CASE("cross_entropy.cu: bf16 rows in shared memory, and one too long for it") {
  entropy_against_reference<Bf16>(3, 1001, 1008);
  entropy_against_reference<Bf16>(1, 58001, 58008);
}

TEST_CASE("cross_entropy_chunk: bytes for some rows -> that many tokens, one at least") {
  CHECK(cross_entropy_chunk(50304, 2, std::size_t{1} << 30) == 10672);
  CHECK(cross_entropy_chunk(50304, 2, 1000) == 1);
}
