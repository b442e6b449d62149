// When a save is asked for by itself.
#include "core/recover/save_interval.hpp"

#include <doctest/doctest.h>

#include "recipe/save_rounds.hpp"

using namespace stoker;
using namespace stoker::core;

namespace {

RunState trained(Duration time, std::uint32_t failures, Duration save) {
  RunState run;
  run.policy.train.command = {"/sw/stoker-train"};
  run.policy.checkpoints.interval_auto = true;
  run.policy.checkpoints.interval_floor = 1s;
  run.accounting.goodput.spent["train"] = time;
  run.recovery.budget.restarts = failures;
  for (int i = 0; i < 5; ++i) run.health.phases["checkpoint"].durations.add(save);
  return run;
}

}  // namespace

TEST_CASE("save interval: auto -> Daly's for (trained + a day) / (failures + 1)") {
  const RunState run = trained(24h * 9, 4, 60s);
  const auto found = save_interval(run);
  REQUIRE(found);
  const auto cost = *run.health.phases.at("checkpoint").durations.quantile(500);
  CHECK(*found == recipe::daly_interval(cost, 48h));
}

TEST_CASE("save interval: more failures -> shorter; never below its floor") {
  CHECK(*save_interval(trained(48h, 20, 60s)) < *save_interval(trained(48h, 1, 60s)));
  RunState run = trained(48h, 20, 60s);
  run.policy.checkpoints.interval_floor = 5h;
  CHECK(*save_interval(run) == 5h);
}

TEST_CASE("save interval: no save was seen, or nothing is configured -> none") {
  RunState run = trained(48h, 1, 60s);
  run.health.phases.clear();
  CHECK(!save_interval(run));
  run = trained(48h, 1, 60s);
  run.policy.checkpoints.interval_auto = false;
  CHECK(!save_interval(run));
}

TEST_CASE("save interval: nothing can tell the training to save -> it is not asked") {
  RunState run = trained(48h, 1, 60s);
  run.training = training::Training{};
  run.live.emplace();
  CHECK(interval_save_at(run));
  run.policy.train.command = {"python", "train.py"};
  CHECK(!interval_save_at(run));
  run.policy.train.save_signal = "USR1";
  CHECK(interval_save_at(run));
}
