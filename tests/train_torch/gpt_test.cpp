// The GPT against references that share nothing with its backward pass: finite differences for
// every parameter tensor, and a plain-loop forward pass.
#include "worker/train/torch/gpt.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <malloc.h>
#include <vector>

#include "kernels/dropout.hpp"
#include "tests/train_torch/tiny_model.hpp"
#include "worker/train/torch/torch_numerics.hpp"
using namespace stoker;
using namespace stoker::train;
using namespace stoker::train::testing;

namespace {

using Matrix = std::vector<std::vector<double>>;

// The forward pass in plain loops, straight from the architecture's definition, without dropout.
class PlainGpt {
 public:
  PlainGpt(const recipe::ModelConfig& c, const FlatState& state) : c_(c), state_(state) {}

  double loss(const MicroBatch& batch) const {
    double total = 0;
    for (std::size_t b = 0; b < batch.samples.size(); ++b) {
      const std::int64_t* tokens = batch.tokens.data() + b * (c_.sequence + 1);
      const Matrix x = final_hidden(tokens);
      for (std::size_t i = 0; i < c_.sequence; ++i)
        total += token_loss(x[i], static_cast<std::size_t>(tokens[i + 1]));
    }
    return total / static_cast<double>(batch.samples.size() * c_.sequence);
  }

 private:
  [[nodiscard]] std::size_t word() const { return *state_.table().word; }
  [[nodiscard]] const double* at(std::size_t parameter) const {
    return static_cast<const double*>(state_.parameters()) +
           state_.table().parameters[parameter].offset;
  }

  [[nodiscard]] Matrix final_hidden(const std::int64_t* tokens) const {
    Matrix x(c_.sequence, std::vector<double>(c_.hidden));
    for (std::size_t i = 0; i < c_.sequence; ++i)
      for (std::size_t j = 0; j < c_.hidden; ++j)
        x[i][j] = at(word())[static_cast<std::size_t>(tokens[i]) * c_.hidden + j] +
                  at(*state_.table().position)[i * c_.hidden + j];
    for (std::size_t layer = 0; layer < c_.layers; ++layer) {
      const std::size_t p = state_.table().blocks.at(layer);
      add(x, linear(attend(linear(norm(x, p + kNorm1Weight), p + kQkvWeight, 3 * c_.hidden)),
                    p + kAttentionOutWeight, c_.hidden));
      Matrix u = linear(norm(x, p + kNorm2Weight), p + kMlpInWeight, c_.ffn);
      for (auto& row : u)
        for (double& v : row)
          v = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
      add(x, linear(u, p + kMlpOutWeight, c_.hidden));
    }
    return norm(x, state_.table().parameters.size() - 2);
  }

  static void add(Matrix& x, const Matrix& y) {
    for (std::size_t i = 0; i < x.size(); ++i)
      for (std::size_t j = 0; j < x[i].size(); ++j) x[i][j] += y[i][j];
  }

  [[nodiscard]] Matrix norm(const Matrix& x, std::size_t p) const {
    Matrix y = x;
    for (auto& row : y) {
      double mean = 0, variance = 0;
      for (const double v : row) mean += v / static_cast<double>(row.size());
      for (const double v : row)
        variance += (v - mean) * (v - mean) / static_cast<double>(row.size());
      for (std::size_t j = 0; j < row.size(); ++j)
        row[j] = (row[j] - mean) / std::sqrt(variance + 1e-5) * at(p)[j] + at(p + 1)[j];
    }
    return y;
  }

  [[nodiscard]] Matrix linear(const Matrix& x, std::size_t p, std::size_t out) const {
    Matrix y(x.size(), std::vector<double>(out));
    for (std::size_t i = 0; i < x.size(); ++i)
      for (std::size_t o = 0; o < out; ++o) {
        y[i][o] = at(p + 1)[o];
        for (std::size_t j = 0; j < x[i].size(); ++j)
          y[i][o] += x[i][j] * at(p)[o * x[i].size() + j];
      }
    return y;
  }

  [[nodiscard]] Matrix attend(const Matrix& qkv) const {
    const std::size_t d = c_.hidden / c_.heads;
    Matrix out(c_.sequence, std::vector<double>(c_.hidden));
    for (std::size_t h = 0; h < c_.heads; ++h)
      for (std::size_t i = 0; i < c_.sequence; ++i) {
        std::vector<double> weight(i + 1);
        double sum = 0;
        for (std::size_t j = 0; j <= i; ++j) {
          double score = 0;
          for (std::size_t k = 0; k < d; ++k)
            score += qkv[i][h * 3 * d + k] * qkv[j][h * 3 * d + d + k];
          sum += weight[j] = std::exp(score / std::sqrt(static_cast<double>(d)));
        }
        for (std::size_t j = 0; j <= i; ++j)
          for (std::size_t k = 0; k < d; ++k)
            out[i][h * d + k] += weight[j] / sum * qkv[j][h * 3 * d + 2 * d + k];
      }
    return out;
  }

  [[nodiscard]] double token_loss(const std::vector<double>& x, std::size_t label) const {
    std::vector<double> logits(c_.vocabulary);
    double sum = 0;
    for (std::size_t v = 0; v < c_.vocabulary; ++v) {
      for (std::size_t j = 0; j < c_.hidden; ++j) logits[v] += x[j] * at(word())[v * c_.hidden + j];
      sum += std::exp(logits[v]);
    }
    return std::log(sum) - logits[label];
  }

  const recipe::ModelConfig& c_;
  const FlatState& state_;
};

}  // namespace

TEST_CASE("Gpt: forward in f64 -> the plain loops, to 1e-12") {
  const auto config = tiny_config();
  TinyModel tiny(config);
  const MicroBatch batch = tiny_batch(config, 5, 3);
  const double plain = PlainGpt(config, tiny.state).loss(batch);
  CHECK(tiny.forward(batch).value() == doctest::Approx(plain).epsilon(1e-12));
  CHECK(tiny.evaluate(batch).value() == doctest::Approx(plain).epsilon(1e-12));
}

TEST_CASE("Gpt: gradients in f64, dropout on -> finite differences, every tensor") {
  const auto config = tiny_config(0.2);
  TinyModel tiny(config);
  const MicroBatch batch = tiny_batch(config, 5, 2);
  REQUIRE(tiny.forward(batch));
  REQUIRE(tiny.backward(1.0));
  auto* values = static_cast<double*>(tiny.state.parameters());
  const auto* gradients = static_cast<const double*>(tiny.state.gradients().data);
  const double step = 1e-6;
  for (const Parameter& p : tiny.state.table().parameters)
    for (std::size_t i = 0; i < p.count; i += std::max<std::size_t>(1, p.count / 7)) {
      const std::size_t at = p.offset + i;
      const double kept = values[at];
      values[at] = kept + step;
      const double above = tiny.forward(batch).value();
      values[at] = kept - step;
      const double below = tiny.forward(batch).value();
      values[at] = kept;
      const double want = (above - below) / (2 * step);
      INFO(p.name, "[", i, "]");
      CHECK(std::abs(gradients[at] - want) < 1e-7 + 1e-5 * std::abs(want));
    }
}

TEST_CASE("Gpt: micro-batches of one, two or four, dropout on -> gradients equal to 1e-12") {
  const auto config = tiny_config(0.1);
  const auto gradients = [&](std::uint64_t micro) {
    TinyModel tiny(config);
    double loss = 0;
    for (std::uint64_t at = 0; at < 4; at += micro) {
      const double weight = static_cast<double>(micro) / 4;
      loss += weight * tiny.forward(tiny_batch(config, at, micro)).value();
      REQUIRE(tiny.backward(weight));
    }
    const auto* g = static_cast<const double*>(tiny.state.gradients().data);
    std::vector<double> all(g, g + tiny.state.table().flat_size);
    all.push_back(loss);
    return all;
  };
  const auto one = gradients(1);
  for (const std::uint64_t micro : {2, 4}) {
    const auto other = gradients(micro);
    double worst = 0;
    for (std::size_t i = 0; i < one.size(); ++i)
      worst = std::max(worst, std::abs(one[i] - other[i]));
    CHECK(worst < 1e-12);
  }
}

// Parameters are drawn by name and element: both models have the same, but for the positions that
// the shorter one does not have.
TEST_CASE("Gpt: beginnings of samples -> loss and gradients of a model of that sequence, bitwise") {
  for (const recipe::Dtype dtype : {recipe::Dtype::F64, recipe::Dtype::F32, recipe::Dtype::Bf16}) {
    auto shorter = tiny_config(0.2);
    shorter.sequence = 5;
    const MicroBatch batch = tiny_batch(shorter, 5, 3);
    TinyModel whole(tiny_config(0.2), dtype), small(shorter, dtype);
    CHECK(whole.evaluate(batch).value() == small.evaluate(batch).value());
    CHECK(whole.forward(batch).value() == small.forward(batch).value());
    REQUIRE(whole.backward(1.0));
    REQUIRE(small.backward(1.0));
    const auto* a = static_cast<const char*>(whole.state.gradients().data);
    const auto* b = static_cast<const char*>(small.state.gradients().data);
    const std::size_t bytes = size_of(whole.state.element());
    for (std::size_t i = 0; i < small.state.table().parameters.size(); ++i) {
      const Parameter& p = whole.state.table().parameters[i];
      const Parameter& q = small.state.table().parameters[i];
      INFO(p.name);
      CHECK(std::memcmp(a + p.offset * bytes, b + q.offset * bytes, q.count * bytes) == 0);
      for (std::size_t rest = q.count * bytes; rest < p.count * bytes; ++rest)
        CHECK(a[p.offset * bytes + rest] == 0);
    }
  }
}

TEST_CASE("Gpt: a sample longer than the model's sequence -> an Error, no crash") {
  auto longer = tiny_config();
  longer.sequence = 9;
  CHECK_FALSE(TinyModel(tiny_config()).forward(tiny_batch(longer, 0, 1)));
}

TEST_CASE("Gpt: bf16 and f32 -> the f64 loss, to their precision") {
  const auto config = tiny_config(0.1);
  const MicroBatch batch = tiny_batch(config, 0, 4);
  const double exact = TinyModel(config).forward(batch).value();
  TinyModel single(config, recipe::Dtype::F32), half(config, recipe::Dtype::Bf16);
  CHECK(single.forward(batch).value() == doctest::Approx(exact).epsilon(1e-5));
  CHECK(half.forward(batch).value() == doctest::Approx(exact).epsilon(2e-2));
  REQUIRE(half.backward(1.0));
  CHECK(half.state.gradient_sum_of_squares(half.state.owned()) > 0);
}

TEST_CASE("Gpt: a token outside the vocabulary -> an Error, no crash") {
  const auto config = tiny_config();
  TinyModel tiny(config);
  MicroBatch batch = tiny_batch(config, 0, 1);
  batch.tokens[3] = 1000;
  CHECK_FALSE(tiny.forward(batch));
}

TEST_CASE("Gpt: short sequences in f32 -> finite gradients, with any content of freed memory") {
  auto config = tiny_config();
  config.sequence = 4;
  for (int round = 0; round < 20; ++round) {
    {  // leaves NaN in the allocator's blocks
      std::vector<std::vector<float>> dirt;
      for (std::size_t size = 64; size <= 8192; size *= 2)
        for (int i = 0; i < 8; ++i) dirt.emplace_back(size, std::nanf(""));
    }
    TinyModel tiny(config, recipe::Dtype::F32);
    REQUIRE(tiny.forward(tiny_batch(config, 0, 2)));
    REQUIRE(tiny.backward(1.0));
    CHECK(std::isfinite(tiny.state.gradient_sum_of_squares(tiny.state.owned())));
  }
}

TEST_CASE("Gpt: bf16 with 4,096 tokens -> the gradients of f32, bias and norm too") {
  auto config = tiny_config();
  config.sequence = 64;
  const MicroBatch batch = tiny_batch(config, 0, 64);
  const auto gradients = [&](recipe::Dtype dtype) {
    auto tiny = std::make_unique<TinyModel>(config, dtype);
    REQUIRE(tiny->forward(batch));
    REQUIRE(tiny->backward(1.0));
    return tiny;
  };
  const auto half = gradients(recipe::Dtype::Bf16), single = gradients(recipe::Dtype::F32);
  const auto* a = static_cast<const float*>(half->state.gradients().data);
  const auto* b = static_cast<const float*>(single->state.gradients().data);
  for (const Parameter& p : single->state.table().parameters) {
    double dot = 0, aa = 0, bb = 0;
    for (std::size_t i = p.offset; i < p.offset + p.count; ++i) {
      dot += static_cast<double>(a[i]) * b[i];
      aa += static_cast<double>(a[i]) * a[i];
      bb += static_cast<double>(b[i]) * b[i];
    }
    INFO(p.name);
    if (p.name.find("qkv.bias") != std::string::npos) continue;  // a third of it is exactly zero
    CHECK(dot / std::sqrt(aa * bb) > 0.999);
    CHECK(std::sqrt(aa / bb) == doctest::Approx(1).epsilon(0.02));
  }
}

TEST_CASE("warm_up_torch: again with other threads, as an edited TRAIN.yaml asks -> no abort") {
  warm_up_torch(1);
  warm_up_torch(2);
  CHECK(torch_numerics().at("threads") == "2");
  warm_up_torch(1);
}

TEST_CASE("Gpt: recomputation -> less is kept between forward and backward, in this order") {
  auto config = tiny_config(0.1);
  config.layers = 8, config.hidden = 64, config.sequence = 64, config.ffn = 256;
  const auto kept = [&](recipe::Recompute what, std::uint64_t every) {
    TinyModel tiny(config, recipe::Dtype::F32, gpt_parameters(config, whole_model(config)), nullptr,
                   {7, 1min, what, every});
    const MicroBatch batch = tiny_batch(config, 0, 4);
    REQUIRE(tiny.forward(batch));  // what is made once
    REQUIRE(tiny.backward(1.0));
    const auto before = ::mallinfo2();
    REQUIRE(tiny.forward(batch));
    const auto after = ::mallinfo2();
    return static_cast<double>(after.uordblks + after.hblkhd) -
           static_cast<double>(before.uordblks + before.hblkhd);
  };
  const double none = kept(recipe::Recompute::None, 1);
  const double selective = kept(recipe::Recompute::Selective, 1);
  const double full = kept(recipe::Recompute::Full, 1), four = kept(recipe::Recompute::Full, 4);
  const double scores = 3.0 * 4 * 2 * 64 * 64 * 4 * 8, input = 4 * 64 * 64 * 4;
  CHECK(none - selective == doctest::Approx(scores).epsilon(0.05));
  CHECK(full < 0.25 * selective);
  CHECK(full - four == doctest::Approx(6 * input).epsilon(0.05));
}
