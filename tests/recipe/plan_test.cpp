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

TEST_CASE("plan: snapshots in memory -> 48 bytes a parameter over the nodes, 24 on one node") {
  TrainConfig config = bloom();
  PlanRequest request;
  request.nodes = 48;
  request.ranks_per_node = 8;
  CHECK(make_plan(config, request)->snapshot_bytes == 0);
  config.checkpoint.memory_every = 10;
  const Plan plan = make_plan(config, request).value();
  // Of the largest stage, which has more than a twelfth of the model.
  CHECK(plan.snapshot_bytes == doctest::Approx(48 * 176.3e9 / 48).epsilon(0.15));
  config.parallel.tensor = config.parallel.pipeline = 1;
  for (const std::uint32_t zero : {0u, 1u}) {
    config.parallel.zero = zero;
    request.nodes = 2, request.ranks_per_node = 4;
    const Plan two = make_plan(config, request).value();
    CHECK(two.snapshot_bytes == doctest::Approx(24.0 * static_cast<double>(two.parameters)));
    CHECK(two.node_bytes == two.snapshot_bytes + 4 * two.memory.total());
    request.nodes = 1;
    const Plan one = make_plan(config, request).value();
    CHECK(one.snapshot_bytes == doctest::Approx(24.0 * static_cast<double>(one.parameters)));
  }
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

TEST_CASE("plan: memory of a GPU in bf16 -> what was measured on an H200, or up to 5 % more") {
  struct Seen {
    ModelConfig model;
    std::uint64_t micro;
    Recompute recompute;
    double bytes;
  };
  const ModelConfig small{12, 768, 12, 3072, 1024, 50304, 0},
      large{48, 1600, 25, 6400, 1024, 50304, 0};
  for (const Seen& seen :
       {Seen{small, 1, Recompute::None, 3.53e9}, Seen{small, 4, Recompute::None, 4.86e9},
        Seen{small, 8, Recompute::None, 6.55e9}, Seen{small, 32, Recompute::None, 17.09e9},
        Seen{small, 32, Recompute::Full, 8.75e9}, Seen{large, 16, Recompute::None, 71.99e9},
        Seen{large, 16, Recompute::Full, 34.90e9}}) {
    CAPTURE(seen.bytes);
    TrainConfig config;
    config.model = seen.model;
    config.train.device = DeviceKind::Cuda;
    config.train.dtype = Dtype::Bf16;
    config.train.recompute = seen.recompute;
    const auto total = static_cast<double>(estimate_memory(config, seen.micro, 1).total());
    CHECK(total >= seen.bytes);
    CHECK(total <= 1.05 * seen.bytes);
  }
}

TEST_CASE("plan: matrices of scores -> counted where they are made") {
  TrainConfig config;
  config.model = {2, 64, 4, 256, 512, 100, 0.1};
  const auto activations = [&](DeviceKind device, Dtype dtype) {
    config.train.device = device;
    config.train.dtype = dtype;
    return static_cast<double>(estimate_memory(config, 3, 1).activations);
  };
  const double scores = 5.0 * 4 * 512 * 512 * 3 * 2;  // of two layers, at two bytes a value
  CHECK(activations(DeviceKind::Cpu, Dtype::Bf16) > scores);
  CHECK(activations(DeviceKind::Cuda, Dtype::F32) > 2 * scores);
  CHECK(activations(DeviceKind::Cuda, Dtype::Bf16) < 0.5 * scores);
  config.model.dropout = 0;
  const double plain = activations(DeviceKind::Cuda, Dtype::Bf16);
  config.model.dropout = 0.1;
  const double masks = 4.0 * 64 * 512 * 3 * 2;  // two of two bytes a layer
  CHECK(activations(DeviceKind::Cuda, Dtype::Bf16) == doctest::Approx(plain + masks));
  config.model.hidden = 60;  // heads of 15
  CHECK(activations(DeviceKind::Cuda, Dtype::Bf16) > scores);
  config.model.dropout = 0;
  CHECK(activations(DeviceKind::Cuda, Dtype::Bf16) < 0.5 * scores);
}

TEST_CASE("eta: speed unknown, zero or absurdly slow -> no answer") {
  CHECK_FALSE(eta(0, 100, 0).has_value());
  CHECK_FALSE(eta(0, 1'000'000'000'000, 1e-9).has_value());
  CHECK(*eta(50, 100, 10) == 5s);
  CHECK(*eta(200, 100, 10) == 0s);
}
