// The plan of BLOOM-176B and of a small run: facts that their chronicles state.
#include "recipe/plan.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::recipe;

namespace {

TrainConfig bloom() {
  TrainConfig config;
  config.model = {70, 14336, 112, 4 * 14336, 2048, 250880};
  config.batch.global = 2048;
  config.batch.ramp_up = RampUp{192, 16, 9'765'625};
  config.batch.micro = {{std::nullopt, 2}};
  config.parallel.tensor = 4;
  config.parallel.pipeline = 12;
  config.parallel.zero = 1;
  config.train.samples = 220'000'000;
  config.train.dtype = Dtype::Bf16;
  config.checkpoint.save = {{std::nullopt, 100}};
  return config;
}

}  // namespace

TEST_CASE("plan: BLOOM on 48 nodes of 8 -> its iterations, tokens, checkpoint and legal nodes") {
  PlanRequest request;
  request.nodes = 48;
  request.ranks_per_node = 8;
  request.samples_per_second = 19.46;
  request.save_cost = 40s;
  request.mean_time_between_failures = 3 * 24h;
  const Plan plan = make_plan(bloom(), request).value();
  CHECK(plan.data_parallel == 8);
  CHECK(plan.iterations == 115'311);
  CHECK_FALSE(plan.illegal.has_value());
  CHECK(plan.legal_nodes == std::vector<std::uint64_t>{6, 12, 24, 48});
  CHECK(plan.tokens == plan.samples * 2048);
  CHECK(plan.samples <= 220'000'000);
  CHECK(plan.parameters == doctest::Approx(176.3e9).epsilon(0.005));
  CHECK(plan.checkpoints == 1153);
  CHECK(to_seconds(*plan.iteration_time) == doctest::Approx(105.24).epsilon(0.001));
  CHECK(to_seconds(*plan.eta) == doctest::Approx(220e6 / 19.46).epsilon(0.001));
  CHECK(*plan.save_every == 43);
  request.nodes = 16;
  request.ranks_per_node = 9;
  CHECK(make_plan(bloom(), request)->illegal.has_value());
}

TEST_CASE("plan: memory -> 18 bytes a parameter replicated, 6 + 12/d sharded, 16 in f32") {
  TrainConfig config = bloom();
  config.parallel.tensor = config.parallel.pipeline = 1;
  const auto n = parameter_count(flops_shape(config.model, Recompute::None));
  config.parallel.zero = 0;
  CHECK(estimate_memory(config, 1, 8).model_state == 18 * n);
  config.parallel.zero = 1;
  CHECK(static_cast<double>(estimate_memory(config, 1, 8).model_state) ==
        doctest::Approx(7.5 * static_cast<double>(n)));
  config.parallel.zero = 0;
  config.train.dtype = Dtype::F32;
  CHECK(estimate_memory(config, 1, 8).model_state == 16 * n);
  CHECK(checkpoint_bytes(config) == 12 * n);
}

TEST_CASE("eta: speed unknown, zero or absurdly slow -> no answer") {
  CHECK_FALSE(eta(0, 100, 0).has_value());
  CHECK_FALSE(eta(0, 1'000'000'000'000, 1e-9).has_value());
  CHECK(*eta(50, 100, 10) == 5s);
  CHECK(*eta(200, 100, 10) == 0s);
}
