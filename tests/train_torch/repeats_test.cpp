// Repeats and its Trial: which pairs of passes are recorded, kept and given up. Recordings are
// closures here; on a card tests/gpu/training.py holds them against runs without.
#include "worker/train/torch/repeats.hpp"

#include <doctest/doctest.h>
#include <thread>

#include "worker/train/torch/operators.hpp"

using namespace stoker;
using namespace stoker::train;

namespace {

struct Again final : Recorded {
  std::function<void()> what;
  Duration takes{};
  void replay() override {
    std::this_thread::sleep_for(takes);
    what();
  }
};

struct Recorder final : Operators {
  mutable unsigned made = 0;
  unsigned fails_at = 0;  // the recording of this number; 0: none
  bool throws = false;
  Duration takes{};
  std::unique_ptr<Recorded> record(Device&, const std::function<void()>& queue) const override {
    if (++made == fails_at) {
      TORCH_CHECK(!throws, "out of memory");
      return nullptr;
    }
    queue();  // the tensors are there from now on
    auto again = std::make_unique<Again>();
    again->what = queue, again->takes = takes;
    return again;
  }
};

MicroBatch batch_of(std::size_t samples, std::int64_t token) {
  MicroBatch batch;
  batch.samples.resize(samples);
  batch.tokens.assign(samples * 4, token);
  return batch;
}

// A model whose loss is its first token, and whose gradient adds up scale x token.
struct Toy {
  explicit Toy(const Recorder& recorder)
      : repeats(cpu_device(), recorder, passes(), gradient, false) {}

  Repeats::Passes passes() {
    const auto fill = [](const MicroBatch& batch, PassTrace& t) {
      t.inputs.fill_(batch.tokens[0]);
    };
    return {[fill](const MicroBatch& batch, PassTrace& t) {
              t = {};
              t.blocks.resize(1);
              t.inputs = at::zeros({1}, at::kLong);
              fill(batch, t);
            },
            fill,
            [](PassTrace& t) {
              t.blocks[0].input = t.inputs.to(at::kDouble);
              t.loss.mean = t.blocks[0].input[0];
            },
            [this](PassTrace& t, double scale) {
              gradient.add_(t.blocks[0].input, scale);
              t.blocks[0] = {};
            }};
  }

  // Whether it was recorded; without that the caller computes it.
  bool pair(std::int64_t token, double scale = 1, Duration plain = {}, std::size_t samples = 1) {
    const Unit unit{0, static_cast<std::uint32_t>(pairs++)};
    const auto loss = repeats.forward(unit, batch_of(samples, token));
    if (loss) CHECK(*loss == static_cast<double>(token));
    const double before = gradient.item<double>();
    const bool recorded = repeats.backward(unit, scale);
    CHECK(recorded == loss.has_value());
    if (!recorded) std::this_thread::sleep_for(plain);
    repeats.end(unit);
    // (A closure's first run is its making: that one counts on top.)
    if (recorded) CHECK(gradient.item<double>() >= before + scale * static_cast<double>(token));
    return recorded;
  }

  at::Tensor gradient = at::zeros({1}, at::kDouble);
  Repeats repeats;
  std::size_t pairs = 0;
};

constexpr unsigned kPlain = Trial::kWarm + Trial::kTimed;

void run_plain(Toy& toy, Duration takes = 3ms) {
  for (unsigned i = 0; i < kPlain; ++i) CHECK_FALSE(toy.pair(5, 1, takes));
}

}  // namespace

TEST_CASE("Repeats: some pairs as they are, then recorded with other tokens, and kept") {
  const Recorder recorder;
  Toy toy(recorder);
  run_plain(toy);
  CHECK(recorder.made == 0);
  for (std::int64_t token = 1; token < 20; ++token) CHECK(toy.pair(token));
  CHECK(recorder.made == 2);
}

TEST_CASE("Repeats: recordings that are not faster -> given up, for good") {
  Recorder recorder;
  recorder.takes = 3ms;
  Toy toy(recorder);
  run_plain(toy, 0ms);
  for (unsigned i = 0; i <= Trial::kTimed; ++i) CHECK(toy.pair(7));
  for (unsigned i = 0; i < 5; ++i) CHECK_FALSE(toy.pair(7));
  CHECK(recorder.made == 2);
}

TEST_CASE("Repeats: a forward pass that cannot be recorded, null or thrown -> never tried again") {
  for (const bool throws : {false, true}) {
    Recorder recorder;
    recorder.fails_at = 1, recorder.throws = throws;
    Toy toy(recorder);
    run_plain(toy);
    for (unsigned i = 0; i < 5; ++i) CHECK_FALSE(toy.pair(7));
    CHECK(recorder.made == 1);
  }
}

TEST_CASE("Repeats: a backward pass that cannot be recorded -> computed, then all as it was") {
  Recorder recorder;
  recorder.fails_at = 2;
  Toy toy(recorder);
  run_plain(toy);
  CHECK(toy.pair(7));
  CHECK(toy.gradient.item<double>() == 7);
  CHECK_FALSE(toy.pair(7));
}

TEST_CASE("Repeats: another scale -> the backward pass is recorded again; another shape -> all") {
  const Recorder recorder;
  Toy toy(recorder);
  run_plain(toy);
  CHECK(toy.pair(2, 0.5));
  CHECK(toy.pair(3, 0.25));
  CHECK(recorder.made == 3);
  for (unsigned i = 0; i < kPlain; ++i) CHECK_FALSE(toy.pair(4, 1, 3ms, 2));
  CHECK(toy.pair(4, 1, {}, 2));
  CHECK(recorder.made == 5);
}

TEST_CASE("Repeats: a unit before the one that is open is over -> the caller computes it") {
  const Recorder recorder;
  Toy toy(recorder);
  run_plain(toy);
  CHECK(toy.repeats.forward({0, 90}, batch_of(1, 3)) == 3.0);
  CHECK_FALSE(toy.repeats.forward({0, 91}, batch_of(1, 4)).has_value());
  CHECK_FALSE(toy.repeats.backward({0, 91}, 1));
  toy.repeats.end({0, 91});
  CHECK(toy.repeats.backward({0, 90}, 1));
  CHECK_FALSE(toy.repeats.forward({0, 92}, batch_of(1, 4)).has_value());
}

TEST_CASE("Repeats: more tokens than keep a GPU busy -> never") {
  const Recorder recorder;
  Toy toy(recorder);
  for (unsigned i = 0; i < 2 * kPlain; ++i) CHECK_FALSE(toy.pair(1, 1, {}, Repeats::kMostTokens));
  CHECK(recorder.made == 0);
}
