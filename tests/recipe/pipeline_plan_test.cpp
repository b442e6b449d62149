// Stages, memory and legality of a mesh.
#include "recipe/pipeline_plan.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "recipe/schedule/csv.hpp"

using namespace stoker;
using namespace stoker::recipe;

namespace {

// 8 layers on 4 stages; batch 8, then 16.
TrainConfig small() {
  TrainConfig config;
  config.model = {8, 64, 4, 256, 32, 1000};
  config.batch.global = 16;
  config.batch.ramp_up = RampUp{8, 8, 800};
  config.parallel.pipeline = 4;
  config.train.samples = 8000;
  config.train.dtype = Dtype::Bf16;
  return config;
}

Plan plan_of(const TrainConfig& config, std::uint64_t nodes,
             const PipelineSchedule* schedule = nullptr) {
  PlanRequest request;
  request.nodes = nodes;
  request.schedule = schedule;
  return make_plan(config, request).value();
}

}  // namespace

TEST_CASE("layers: even, or even with embedding and head as one each -> the stages") {
  CHECK(split_layers(8, 4).value() == std::vector<std::uint64_t>{2, 2, 2, 2});
  CHECK(split_layers(10, 4).value() == std::vector<std::uint64_t>{2, 3, 3, 2});
  const auto bloom = split_layers(70, 12).value();
  CHECK(bloom.front() == 5);
  CHECK(bloom[1] == 6);
  CHECK(bloom.back() == 5);
  CHECK_FALSE(split_layers(9, 4).has_value());
  CHECK(split_layers(1, 1).value() == std::vector<std::uint64_t>{1});
}

TEST_CASE("pipeline plan: 1F1B -> micro-batches, bubble and memory of each stage") {
  const Plan plan = plan_of(small(), 4);
  REQUIRE(plan.pipeline);
  const PipelinePlan& pipeline = *plan.pipeline;
  REQUIRE(pipeline.phases.size() == 2);
  CHECK(pipeline.phases[0].micro_batches == 8);
  CHECK(*pipeline.phases[0].bubble == doctest::Approx(3.0 / 11));
  CHECK(*pipeline.phases[1].bubble == doctest::Approx(3.0 / 19));
  REQUIRE(pipeline.ranks.size() == 4);
  for (std::size_t r = 0; r < 4; ++r) {
    CHECK(pipeline.ranks[r].layers == 2);
    CHECK(pipeline.ranks[r].in_flight == 4 - static_cast<double>(r));
  }
  const double s = 32, h = 64, layer = s * h * (34 + 5 * 4 * s / h);
  CHECK(pipeline.ranks[1].memory.activations == static_cast<std::uint64_t>(2 * 3 * layer));
  std::uint64_t state = 0;
  for (const StagePlan& rank : pipeline.ranks) state += rank.memory.model_state;
  CHECK(state == 18 * (plan.parameters + 1000 * 64));  // the head's copy of the embedding
  CHECK(plan.memory.total() == pipeline.ranks[0].memory.total());
  CHECK(plan.replica_bytes == 18 * plan.parameters);
}

TEST_CASE("pipeline plan: ZB-V -> both ends of the model on rank 0, no copy of the embedding") {
  TrainConfig config = small();
  config.parallel.schedule = ScheduleKind::ZbV;
  const Plan plan = plan_of(config, 4);
  REQUIRE(plan.pipeline);
  std::uint64_t state = 0;
  for (const StagePlan& rank : plan.pipeline->ranks) {
    CHECK(rank.layers == 2);
    CHECK(rank.in_flight == 4);
    state += rank.memory.model_state;
  }
  CHECK(state == 18 * plan.parameters);
}

TEST_CASE("pipeline plan: recomputation -> less memory, other bubble") {
  TrainConfig config = small();
  config.parallel.schedule = ScheduleKind::ZbH1;
  const Plan none = plan_of(config, 4);
  config.train.recompute = Recompute::Selective;
  const Plan selective = plan_of(config, 4);
  config.train.recompute = Recompute::Full;
  const Plan full = plan_of(config, 4);
  config.train.recompute_every = 2;
  const Plan every = plan_of(config, 4);
  const auto bytes = [](const Plan& p) { return p.pipeline->ranks[0].memory.activations; };
  CHECK(bytes(selective) < bytes(none));
  CHECK(bytes(full) < bytes(selective));
  CHECK(bytes(every) != bytes(full));  // fewer inputs, more layers at a time
  CHECK(*none.pipeline->phases[0].bubble == doctest::Approx(3.0 / 27));
  CHECK(*full.pipeline->phases[0].bubble == doctest::Approx(6.0 / 38));
}

TEST_CASE(
    "pipeline plan: interleaved in a ramp-up -> 1F1B's order until p divides; at the end not") {
  TrainConfig config = small();
  config.parallel.schedule = ScheduleKind::Interleaved;
  config.parallel.virtual_stages = 2;
  const Plan narrow = plan_of(config, 4);
  CHECK_FALSE(narrow.illegal_mesh.has_value());
  for (const auto& phase : narrow.pipeline->phases) CHECK_FALSE(phase.falls_back);
  const Plan wide = plan_of(config, 16);  // 4 replicas: 2, then 4 micro-batches
  CHECK_FALSE(wide.illegal_mesh.has_value());
  REQUIRE(wide.pipeline->phases.size() == 2);
  CHECK(wide.pipeline->phases[0].falls_back);
  CHECK(*wide.pipeline->phases[0].bubble > *wide.pipeline->phases[1].bubble);
  CHECK_FALSE(wide.pipeline->phases[1].falls_back);
  const auto batches = BatchPlan::make(config.batch).value();
  const auto phases = batches.phases(config.train.samples);
  CHECK(fallback_text(config.parallel, phases, 1, nullptr) == "");
  CHECK(
      fallback_text(config.parallel, phases, 4, nullptr) ==
      fmt::format("{} iterations run in 1F1B's order; the first: global batch 8 at iteration 1 (0 "
                  "consumed samples) with 4 data-parallel ranks: 2 micro-batches are not a "
                  "multiple of 4 pipeline stages, as schedule interleaved needs",
                  phases[0].iterations));
  const Plan wider = plan_of(config, 32);  // 8 replicas: 2 micro-batches at the end
  REQUIRE(wider.illegal_mesh.has_value());
  CHECK(wider.illegal_mesh->find("global batch 16 at iteration ") == 0);
  CHECK(wider.legal_nodes == std::vector<std::uint64_t>{4, 8, 16});
  config.parallel.schedule = ScheduleKind::OneFOneB;
  config.parallel.virtual_stages = 1;
  CHECK(plan_of(config, 16).legal_nodes == std::vector<std::uint64_t>{4, 8, 16, 32});
}

TEST_CASE("pipeline plan: ranks that do not split, nodes legal only later -> said") {
  const Plan odd = plan_of(small(), 6);
  REQUIRE(odd.illegal_mesh.has_value());
  CHECK(*odd.illegal_mesh == "6 ranks do not split into groups of 4 (tensor 1 x pipeline 4)");
  const Plan later = plan_of(small(), 64);  // 16 replicas: batch 8 is too small
  REQUIRE(later.illegal.has_value());
  REQUIRE(later.legal_from.has_value());
  CHECK(later.legal_from->global == 16);
  CHECK(later.legal_from->consumed >= 800);
  CHECK_FALSE(plan_of(small(), 128).legal_from.has_value());
}

TEST_CASE("pipeline plan: nodes that begin later -> judged from there on") {
  PlanRequest request;
  request.nodes = 64;  // 16 replicas: batch 8 is too small, 16 is not
  request.from = 1000;
  const Plan plan = make_plan(small(), request).value();
  CHECK_FALSE(plan.illegal.has_value());
  REQUIRE(plan.pipeline);
  REQUIRE(plan.pipeline->phases.size() == 1);
  CHECK(plan.pipeline->phases[0].micro_batches == 1);
  CHECK(*plan.pipeline->phases[0].bubble == 0.75);
  CHECK(plan.legal_nodes.back() == 64);
}

TEST_CASE("pipeline plan: a CSV -> its ranks, stages and micro-batches must fit") {
  TrainConfig config = small();
  config.batch.ramp_up.reset();
  config.batch.global = 2;
  config.parallel.pipeline = 2;
  config.parallel.schedule = ScheduleKind::Csv;
  const auto csv = parse_schedule_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "mine.csv").value();
  const Plan plan = plan_of(config, 2, &csv);
  REQUIRE(plan.pipeline);
  CHECK(plan.pipeline->ranks[0].in_flight == 2);
  CHECK(*plan.pipeline->phases[0].bubble == doctest::Approx(1.0 / 3));
  CHECK(*plan_of(config, 4, &csv).illegal_mesh ==
        "global batch 2 at iteration 1 (0 consumed samples) with 2 data-parallel ranks: 1 "
        "micro-batches, the schedule mine.csv is for 2");
  config.parallel.pipeline = 4;
  PlanRequest request;
  request.nodes = 4;
  request.schedule = &csv;
  CHECK(make_plan(config, request).error().message() ==
        "mine.csv: has 2 ranks, parallel.pipeline is 4");
}

TEST_CASE("check_parallel: heads, ffn, layers, virtual stages -> the key to blame") {
  const ModelConfig model{8, 64, 4, 250, 32, 1000};
  const auto key = [&](ParallelConfig p) {
    const Status fits = check_parallel(p, model);
    return fits ? std::string("fits") : fits.error().object;
  };
  ParallelConfig p;
  CHECK(key(p) == "fits");
  p.tensor = 8;
  CHECK(key(p) == "tensor");
  p.tensor = 4;  // 4 heads, but ffn 250
  CHECK(key(p) == "tensor");
  p.tensor = 2;
  CHECK(key(p) == "fits");
  p.pipeline = 3;
  CHECK(key(p) == "pipeline");
  p.pipeline = 4;
  p.virtual_stages = 2;
  CHECK(key(p) == "virtual_stages");
  p.schedule = ScheduleKind::Interleaved;
  CHECK(key(p) == "fits");
  p.virtual_stages = 1;
  CHECK(key(p) == "virtual_stages");
  p.schedule = ScheduleKind::ZbV;
  CHECK(key(p) == "fits");
}
