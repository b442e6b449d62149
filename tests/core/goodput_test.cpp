// Where the time went: incidents, MFU, energy.
#include "core/publish/goodput.hpp"

#include <doctest/doctest.h>

#include "core/state.hpp"

using namespace stoker;
using namespace stoker::core;

namespace {

RunState on_two_nodes() {
  RunState run;
  run.policy.scheduler.gpus_per_node = 8;
  run.live.emplace();
  run.live->nodes = NodeList::List{NodeName("n1"), NodeName("n2")};
  run.live->attempt_nodes = run.live->nodes;
  run.training = training::Training{};
  run.health.progress.iteration = Iteration(100);
  run.health.progress.phase = wire::Phase::Iteration;
  account(run, Instant{} + 1h);
  return run;
}

}  // namespace

TEST_CASE("goodput: an incident -> its down time and what is repeated then are its cost") {
  RunState run = on_two_nodes();
  run.recovery.incident = Incident{"hang", Instant{} + 2h, {}, Iteration(100), Iteration(80)};
  account(run, Instant{} + 2h);
  run.training = training::Recovering{};
  account(run, Instant{} + 2h + 30min);  // down
  run.training = training::Training{};
  run.recovery.incident.reset();
  run.health.progress.iteration = Iteration(90);
  account(run, Instant{} + 2h + 30min);
  account(run, Instant{} + 3h);  // repeats
  run.health.progress.iteration = Iteration(101);
  account(run, Instant{} + 3h);
  account(run, Instant{} + 4h);  // trains
  const CauseCost& hang = run.accounting.goodput.costs.at("hang");
  CHECK(hang.times == 1);
  CHECK(hang.time == 1h);
  CHECK(hang.node_hours == doctest::Approx(2));
  REQUIRE(run.accounting.goodput.incidents.size() == 1);
  CHECK(run.accounting.goodput.incidents[0].node_hours == doctest::Approx(2));
  CHECK(run.accounting.goodput.costs.count("repeated") == 0);
  CHECK(hours_text(run, 2) == "16.00 GPU hours");
  CHECK(hours_text(run, 0.0001) == "less than 0.01 GPU hours");
  CHECK(lost_so_far(run, 0.0001).empty());
  CHECK(lost_so_far(run, 2) == "16.00 GPU hours lost so far");
}

TEST_CASE("goodput: MFU -> FLOPs of the batch by those that the GPUs could do; unknown: none") {
  RunState run = on_two_nodes();
  CHECK(!mfu(run));
  run.policy.goodput.peak_tflops = 312;
  run.policy.goodput.sample_flops = 2e13;
  TrailPoint a, b;
  a.iteration = Iteration(99);
  a.samples = 99 * 1000;
  b.iteration = Iteration(100);
  b.samples = 100 * 1000;
  run.recovery.trail.points = {a, b};
  run.health.phases["iteration"].durations.add(10s);
  REQUIRE(mfu(run));
  CHECK(*mfu(run) == doctest::Approx(1000 * 2e13 / (10 * 16 * 312e12)).epsilon(0.13));
}

TEST_CASE("goodput: energy -> measured where it was, the model for the rest, and says so") {
  RunState run = on_two_nodes();
  run.policy.goodput.gpu_watts = 500;
  run.policy.goodput.pue = 1;
  run.policy.goodput.co2_g_per_kwh = 100;
  run.health.progress.gpu_watts = 4000;  // of 16 GPUs
  account(run, Instant{} + 2h);
  REQUIRE(energy(run));
  CHECK(energy(run)->kwh == doctest::Approx(4));
  CHECK(energy(run)->how.starts_with("measured"));
  run.health.progress.gpu_watts = 0;
  account(run, Instant{} + 3h);
  CHECK(energy(run)->kwh == doctest::Approx(12));
  CHECK(energy(run)->co2_kg == doctest::Approx(1.2));
  CHECK(energy(run)->how.starts_with("50 % measured"));
  CHECK(energy(run)->how.find("500 W a GPU") != std::string::npos);
}
