// What an alert knows about its run: what the failure costs, how the run stands, its losses.
#include "core/alerts/alert_facts.hpp"

#include <doctest/doctest.h>

#include "core/alerts/alerting.hpp"

using namespace stoker;
using namespace stoker::core;

namespace {

constexpr WallTime kNoon{std::chrono::hours(12)};

RunState failed_run() {
  RunState run;
  run.policy.run = RunName("hello");
  run.policy.scheduler.gpus_per_node = 8;
  run.training = training::Recovering{};
  run.health.progress.iteration = Iteration(160);
  run.health.progress.total = 500;
  run.health.progress.loss = 2.25;
  run.health.checkpoint.iteration = Iteration(140);
  run.recovery.incident =
      Incident{"rank_crash", Instant(1h), kNoon, Iteration(160), Iteration(140)};
  IncidentCost cost;
  cost.since = Instant(1h);
  cost.node_hours = 0.5;
  cost.time = 15min;
  run.accounting.goodput.incidents = {cost};
  return run;
}

SendAlert facts_of(const std::string& kind, const RunState& run, bool resolved = false) {
  SendAlert alert;
  alert.alert_kind = kind;
  alert.resolved = resolved;
  add_facts(alert, run, kNoon + 15min);
  return alert;
}

}  // namespace

TEST_CASE("alert facts: a failure -> since when, what is repeated, what is lost so far") {
  const auto alert = facts_of("rank_crash", failed_run());
  CHECK(alert.impact ==
        "no training since 12:00 UTC; 20 iterations to repeat; 4.00 GPU hours lost so far");
  CHECK(alert.progress ==
        "recovering at iteration 160 of 500 (32.0 %), loss 2.25, newest checkpoint 140");
  CHECK(alert.curve.empty());
}

TEST_CASE("alert facts: no failure, or of the site -> nothing that it did not cost") {
  CHECK(facts_of("slow", failed_run()).impact.empty());
  CHECK(facts_of("weekly_digest", failed_run()).progress.empty());
}

TEST_CASE("alert facts: the end of a failure -> what it cost, and that repeating goes on") {
  RunState run = failed_run();
  run.training = training::Training{};
  run.recovery.incident.reset();
  run.accounting.goodput.incidents.back().repeated = 20;
  CHECK(facts_of("rank_crash", run, true).impact ==
        "15min without training, 4.00 GPU hours; 20 iterations are repeated now, which costs more: "
        "stoker status hello");
}

TEST_CASE("alert facts: a finished run -> what all of it cost") {
  RunState run = failed_run();
  run.training = training::Finished{};
  run.accounting.goodput.spent = {{"train", 9h}, {"down", 1h}};
  run.accounting.goodput.node_hours = 2;
  CHECK(facts_of("finished", run).impact == "goodput 90.0 % of 10h; 16.00 GPU hours lost");
}

TEST_CASE("alert facts: losses -> a curve of the newest, without what is no number") {
  RunState run = failed_run();
  run.health.losses = {{1, 4.0}, {2, 3.0}, {3, std::numeric_limits<double>::quiet_NaN()}, {4, 2.0}};
  CHECK(facts_of("slow", run).curve == "█▅▁ 4 to 2");
  run.health.losses.resize(1);
  CHECK(facts_of("slow", run).curve.empty());
  run.health.losses.assign(100, {1, 3.0});
  std::size_t bars = 0;
  for (const char c : facts_of("slow", run).curve) bars += c == '\xe2' ? 1 : 0;
  CHECK(bars == 30);
}

TEST_CASE("alert facts: an alert that is repeated -> the run as it is now") {
  SiteState site;
  site.wall = kNoon;
  site.runs.emplace(RunName("hello"), failed_run());
  AlertState open;
  open.id = "hello/rank_crash/7";
  open.run = RunName("hello");
  open.kind = "rank_crash";
  site.alerts.emplace(open.id, open);
  const auto again = alerts_to_repeat(site, RunName("hello"), Instant(2h));
  REQUIRE(again.size() == 1);
  CHECK(again.front().impact.find("20 iterations to repeat") != std::string::npos);
}
