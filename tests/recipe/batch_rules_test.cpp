// What is refused before the first iteration, save rounds, and the best interval between saves.
#include <doctest/doctest.h>

#include "recipe/batch_plan.hpp"
#include "recipe/save_rounds.hpp"

using namespace stoker;
using namespace stoker::recipe;

namespace {

BatchConfig batch(std::uint64_t global, std::optional<RampUp> ramp = {},
                  std::vector<MicroStep> micro = {{{}, 1}}) {
  BatchConfig config;
  config.global = global;
  config.ramp_up = ramp;
  config.micro = std::move(micro);
  return config;
}

}  // namespace

TEST_CASE("batch: a ramp step that does not divide -> named with the legal node counts") {
  // tr1's pain: 16, 32, 48 ... on 32 ranks with micro-batch 1 fails at the first step already; on
  // 16 it fits.
  const auto plan = BatchPlan::make(batch(1024, RampUp{16, 16, 5'000'000}));
  CHECK(check_batch(*plan, 300'000'000, 4, {4, 1}).has_value());
  const auto bad = check_batch(*plan, 300'000'000, 8, {4, 1});
  REQUIRE_FALSE(bad.has_value());
  CHECK(bad.error().message() ==
        "batch: global batch 16 at iteration 1 (0 consumed samples) is not a multiple of "
        "micro-batch 1 x 32 data-parallel ranks = 32; legal node counts with 4 ranks a node: 1, 2, "
        "4");
}

TEST_CASE("batch: a resume after the ramp-up -> only what comes from there on is judged") {
  const auto plan = BatchPlan::make(batch(1024, RampUp{16, 16, 5'000'000}));  // tr1
  constexpr std::uint64_t kSamples = 300'000'000, kRamped = 153'013'584;
  CHECK_FALSE(check_batch(*plan, kSamples, 64, {4, 1}).has_value());
  CHECK(check_batch(*plan, kSamples, 64, {4, 1}, kRamped).has_value());
  const auto bad = check_batch(*plan, kSamples, 48, {4, 1}, kRamped);
  REQUIRE_FALSE(bad.has_value());
  CHECK(bad.error().message().find("a node: 1, 2, 4, 8, 16, 32, 64, 128, 256") !=
        std::string::npos);
}

TEST_CASE("batch: a later step is the bad one -> that iteration is named") {
  const auto plan = BatchPlan::make(batch(48, RampUp{16, 16, 1000}));
  const auto bad = plan->first_illegal(16, 0, 10'000);
  CHECK_FALSE(bad.has_value());
  const auto micro = BatchPlan::make(batch(96, RampUp{32, 32, 1000}, {{500, 2}, {{}, 4}}));
  const auto late = micro->first_illegal(16, 0, 10'000);
  REQUIRE(late.has_value());
  CHECK(late->phase.micro == 4);
  CHECK(late->phase.global == 96);
  CHECK(micro->global_batch(late->phase.consumed) == 96);
  CHECK(micro->legal_data_parallel(10'000, 1000) == std::vector<std::uint64_t>{1, 2, 4, 8});
  CHECK_FALSE(micro->first_illegal(16, 0, 400).has_value());
  CHECK(micro->first_illegal(16, 800, 10'000).has_value());
}

TEST_CASE("batch: no node count fits -> said so") {
  const auto plan = BatchPlan::make(batch(6, {}, {{{}, 4}}));
  const auto bad = check_batch(*plan, 100, 1, {1, 1});
  REQUIRE_FALSE(bad.has_value());
  CHECK(bad.error().hint.find("no node count") != std::string::npos);
  CHECK(legal_node_counts(*BatchPlan::make(batch(64)), 6400, {8, 4}, 16) ==
        std::vector<std::uint64_t>{1, 2, 4, 8, 16});
}

TEST_CASE("batch: impossible configurations -> one clear error each") {
  const auto what = [](const BatchConfig& c) { return BatchPlan::make(c).error().what; };
  CHECK(what(batch(0)).find("the global batch must be") == 0);
  CHECK(what(batch(100, RampUp{16, 16, 100})).find("never meets the global batch") !=
        std::string::npos);
  CHECK(what(batch(64, RampUp{128, 16, 100})).find("above the global batch") != std::string::npos);
  CHECK(what(batch(64, RampUp{16, 0, 100})).find("increment") != std::string::npos);
  CHECK(what(batch(64, RampUp{16, 16, 0})).find("samples") != std::string::npos);
  CHECK(what(batch(900'000'000, RampUp{1, 1, 100})).find("more than") != std::string::npos);
  CHECK(what(batch(64, {}, {{10, 1}})).find("until_samples") != std::string::npos);
  CHECK(what(batch(64, {}, {{10, 1}, {10, 2}, {{}, 4}})).find("must grow") != std::string::npos);
  CHECK(BatchPlan::make(batch(64, RampUp{64, 0, 100})).has_value());  // nothing to ramp
}

TEST_CASE("batch: Megatron's step schedule -> sizes by samples") {
  BatchConfig config = batch(1536);
  config.steps = parse_batch_steps("0:768 250K:1536").value();
  const auto plan = BatchPlan::make(config);
  CHECK(plan->global_batch(249'999) == 768);
  CHECK(plan->global_batch(250'000) == 1536);
  CHECK(plan->phases(1'000'000).size() == 2);
  CHECK_FALSE(parse_batch_steps("0:768 x").has_value());
  CHECK_FALSE(parse_batch_steps("0:768 5Q:9").has_value());
  CHECK_FALSE(parse_batch_steps("").has_value());
  config.steps = {{0, 768}, {0, 1536}};
  CHECK_FALSE(BatchPlan::make(config).has_value());
}

TEST_CASE("batch: a hostile ramp of 10^15 samples -> still instant") {
  const auto plan = BatchPlan::make(batch(100'001, RampUp{1, 1, 1'000'000'000'000'000}));
  CHECK(plan->train_iterations(1'000'000'000'000'000) > 1'000'000'000);
}

TEST_CASE("save rounds: every 10 to 100, 18 to 1000, then 1500 -> tr1's saves") {
  const std::vector<SaveRound> rounds{{100, 10}, {1000, 18}, {{}, 1500}};
  REQUIRE(check_save_rounds(rounds).has_value());
  std::uint64_t saves = 0;
  for (std::uint64_t i = 0; i <= 7000; ++i) {
    saves += save_due(rounds, Iteration(i)) ? 1 : 0;
    CHECK(count_saves(rounds, Iteration(i)) == saves);
  }
  CHECK_FALSE(save_due(rounds, Iteration(0)));
  CHECK(save_due(rounds, Iteration(100)));
  CHECK(save_due(rounds, Iteration(108)));
  CHECK_FALSE(save_due(rounds, Iteration(110)));
  CHECK(save_due(rounds, Iteration(1500)));
  CHECK_FALSE(check_save_rounds({{{}, 10}, {{}, 5}}).has_value());
  CHECK_FALSE(check_save_rounds({{100, 10}, {50, 5}}).has_value());
  CHECK_FALSE(check_save_rounds({{100, 0}}).has_value());
}

TEST_CASE(
    "save interval: a save of 40 s and a failure every 24 h -> Young 43.8 min, Daly less the "
    "save") {
  CHECK(to_seconds(young_interval(40s, 24h)) == doctest::Approx(2629.07).epsilon(1e-4));
  const double daly = to_seconds(daly_interval(40s, 24h));
  CHECK(daly == doctest::Approx(2602.5).epsilon(1e-3));
  CHECK(daly_interval(3h, 1h) == 1h);
}
