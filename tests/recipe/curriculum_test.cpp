// Sequence lengths of a curriculum, and the tokens and the work that follow from them.
#include "recipe/curriculum.hpp"

#include <doctest/doctest.h>

#include "recipe/plan.hpp"
#include "recipe/sequence_plan.hpp"

using namespace stoker;
using namespace stoker::recipe;

namespace {

TrainConfig ramp_and_curriculum() {
  TrainConfig c;
  c.model.layers = 4, c.model.hidden = 64, c.model.heads = 4, c.model.ffn = 256;
  c.model.sequence = 256, c.model.vocabulary = 1000;
  c.batch.global = 16;
  c.batch.ramp_up = RampUp{4, 4, 80};
  c.train.samples = 2000;
  c.lr.max = 1e-3, c.lr.decay_samples = 2000;
  c.train.curriculum = Curriculum{16, 256, 50, 16};
  return c;
}

std::string blamed(const Curriculum& c, std::uint64_t sequence) {
  const Status good = check_curriculum(c, sequence);
  return good ? "" : good.error().object + ": " + good.error().what;
}

}  // namespace

TEST_CASE("curriculum: every iteration -> multiples of step that never fall, from min to max") {
  const Curriculum c{24, 104, 37, 8};
  REQUIRE(check_curriculum(c, 104));
  std::uint64_t before = c.min;
  for (std::uint64_t i = 1; i <= 60; ++i) {
    const std::uint64_t length = curriculum_length(c, Iteration(i));
    CHECK(length % 8 == 0);
    CHECK(length >= before);
    CHECK((length == 104) == (i >= 37));
    before = length;
  }
  CHECK(curriculum_length(Curriculum{64, 64, 10}, Iteration(3)) == 64);
}

TEST_CASE("curriculum: keys that do not fit -> the one to blame is named") {
  CHECK(blamed({64, 2048, 36000, 8}, 2048) == "");
  CHECK(blamed({64, 2048, 36000, 0}, 2048).starts_with("step: must be between 1"));
  CHECK(blamed({64, 2048, 0, 8}, 2048).starts_with("total: must be between 1"));
  CHECK(blamed({60, 2048, 9, 8}, 2048) == "min: 60 is not a multiple of step 8 above 0");
  CHECK(blamed({0, 2048, 9, 8}, 2048) == "min: 0 is not a multiple of step 8 above 0");
  CHECK(blamed({64, 4096, 9, 8}, 2048) == "max: 4096 is above the model's sequence 2048");
  CHECK(blamed({64, 56, 9, 8}, 2048) == "max: 56 is below min 64");
  CHECK(blamed({64, 1023, 9, 8}, 1023) == "max: 1023 is not a multiple of step 8");
  CHECK(blamed({1, 1u << 20, 9, 1}, 1u << 20).starts_with("step: makes more than"));
}

TEST_CASE("sequence plan: tokens and phases -> those of walking through the iterations") {
  const TrainConfig c = ramp_and_curriculum();
  const auto batches = BatchPlan::make(c.batch).value();
  const std::uint64_t total = batches.train_iterations(c.train.samples);
  std::uint64_t tokens = 0, consumed = 0;
  for (std::uint64_t i = 1; i <= total; ++i) {
    const std::uint64_t global = batches.global_batch(consumed);
    tokens += global * sequence_at(c, Iteration(i));
    consumed += global;
    CHECK(tokens_after(c, batches, Iteration(i), consumed) == tokens);
  }
  CHECK(tokens < consumed * 256);
  std::uint64_t end = 7;
  const auto phases = sequence_phases(c, Iteration(7), Iteration(total));
  for (const SequencePhase& phase : phases) {
    CHECK(phase.first_iteration == end);
    end += phase.iterations;
    CHECK(sequence_at(c, Iteration(phase.first_iteration + 1)) == phase.sequence);
    CHECK(sequence_at(c, Iteration(end)) == phase.sequence);
  }
  CHECK(end == total);
  CHECK(phases.size() == 14);  // 48 to 256 in steps of 16
}

TEST_CASE("sequence plan: without a curriculum -> the model's sequence in every iteration") {
  TrainConfig c = ramp_and_curriculum();
  c.train.curriculum.reset();
  const auto batches = BatchPlan::make(c.batch).value();
  CHECK(sequence_at(c, Iteration(1)) == 256);
  CHECK(tokens_after(c, batches, Iteration(9), 1234) == 1234 * 256);
  CHECK(full_samples(c, batches, Iteration(3), Iteration(20)) ==
        batches.consumed_after(Iteration(20)) - batches.consumed_after(Iteration(3)));
  CHECK(curriculum_text(c) == "none");
}

TEST_CASE("plan: a curriculum -> fewer tokens, less work and an earlier end of the same samples") {
  TrainConfig c = ramp_and_curriculum();
  PlanRequest request;
  request.device_tflops = 1e-3;
  const Plan with = make_plan(c, request).value();
  c.train.curriculum.reset();
  const Plan without = make_plan(c, request).value();
  CHECK(with.iterations == without.iterations);
  CHECK(with.samples == without.samples);
  CHECK(without.tokens == without.samples * 256);
  CHECK(with.tokens < without.tokens);
  const double share = with.total_flops / without.total_flops;
  CHECK(share < static_cast<double>(with.tokens) / static_cast<double>(without.tokens));
  CHECK(share > 0.5);
  CHECK(to_seconds(*with.eta) == doctest::Approx(share * to_seconds(*without.eta)).epsilon(1e-4));
  CHECK(with.memory.total() == without.memory.total());
}

TEST_CASE("plan: a speed that was seen with short samples -> fewer of full length in that time") {
  const TrainConfig c = ramp_and_curriculum();
  PlanRequest request;
  request.samples_per_second = 100;
  const double late = to_seconds(*make_plan(c, request)->eta);
  request.observed_at = 1;
  const double early = to_seconds(*make_plan(c, request)->eta);
  CHECK(early == doctest::Approx(late / work_share(c, 16)).epsilon(1e-3));
  CHECK(early > 16 * late);
}
