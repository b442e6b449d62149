// Views of the state: what a live heartbeat may change in the published status.
#include "core/publish/status.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::core;

namespace {

wire::StatusDocument published() {
  wire::StatusDocument doc;
  doc.state = "training";
  doc.attempt = 2;
  doc.iteration = 100;
  doc.total = 1000;
  doc.loss = 2.5;
  doc.step_norm_s = 2;
  doc.eta_s = 1800;
  return doc;
}

wire::Beat beat() {
  wire::Beat beat;
  beat.attempt = Attempt(2);
  beat.phase = wire::Phase::Iteration;
  beat.iteration_max = Iteration(110);
  beat.loss = 2.25;
  beat.progress_age_ms = 400;
  beat.iteration_ms = {1, 1500, 1500, 1500};
  return beat;
}

}  // namespace

TEST_CASE("status: a newer heartbeat -> its iteration, loss, step time and age are shown") {
  auto doc = published();
  lay_over(doc, beat(), 100ms);
  CHECK(doc.iteration == 110);
  CHECK(*doc.loss == 2.25);
  CHECK(doc.step_s == doctest::Approx(1.5));
  CHECK(doc.progress_age_s == doctest::Approx(0.5));
  CHECK(*doc.eta_s == doctest::Approx(1780));
}

TEST_CASE("status: a heartbeat of another attempt, of a run that is over, or older -> not shown") {
  for (const char* change : {"attempt", "state", "older"}) {
    auto doc = published();
    auto live = beat();
    if (std::string(change) == "attempt") live.attempt = Attempt(1);
    if (std::string(change) == "state") doc.state = "held";
    if (std::string(change) == "older") live.iteration_max = Iteration(90);
    lay_over(doc, live, 100ms);
    CHECK(doc.iteration == 100);
    CHECK(*doc.loss == 2.5);
  }
}

TEST_CASE("status: in the queue -> why the next task waits, in SLURM's word and ours") {
  SiteState site;
  RunState run;
  run.policy.run = RunName("tr11");
  run.training = training::Queued{};
  run.why = "submitted as job 7";
  supply::Submission s;
  s.token = Token("tr11-1-0badcafe");
  s.job = JobId{7, 0};
  s.state = supply::Pending{};
  s.tasks[1].state = JobState::Pending;
  s.tasks[1].reason = "Priority";
  run.jobs.supply.emplace(s.token, s);
  CHECK(status_of(site, run, Instant{}, WallTime{}).reason ==
        "submitted as job 7; job 7_1: Priority (other jobs have a higher priority)");
  run.jobs.supply.at(s.token).tasks[1].reason = "None";
  CHECK(status_of(site, run, Instant{}, WallTime{}).reason == "submitted as job 7");
}

TEST_CASE("status: in the queue, and the last submission was rejected -> how many, and why") {
  SiteState site;
  RunState run;
  run.training = training::Queued{};
  run.why = "alice put tr11 under supervision";
  run.jobs.failed_submits = 2;
  std::get<training::Queued>(run.training).refused = "sbatch refused: Invalid account";
  CHECK(status_of(site, run, Instant{}, WallTime{}).reason ==
        "alice put tr11 under supervision; the scheduler rejected 2 submissions: sbatch refused: "
        "Invalid account");
}

TEST_CASE("status: a training run -> its forecast from what it has paid so far") {
  SiteState site;
  RunState run;
  run.training = training::Training{};
  run.newest = Generation(2);
  run.health.progress.iteration = Iteration(1000);
  run.health.progress.total = 2000;
  run.health.progress.step_ms = 1000;
  run.health.phases[std::string(stoker::name_of(wire::Phase::Iteration))].durations.add(1s, 1000);
  run.policy.scheduler.time_limit = 1h;
  run.policy.train.exit_before_limit = 10min;
  run.accounting.goodput.spent = {
      {"train", 1200s}, {"checkpoint", 120s}, {"start", 100s}, {"queue", 400s}};
  const auto doc = status_of(site, run, Instant{}, WallTime{});
  REQUIRE(doc.eta_s);
  REQUIRE(doc.forecast);
  CHECK(*doc.eta_s > 1000);  // what iterations alone would say
  CHECK(doc.forecast->saves_s == doctest::Approx(doc.forecast->iterations_s / 10));
  CHECK(doc.forecast->low_s < *doc.eta_s);
  CHECK(doc.forecast->high_s > *doc.eta_s);
  CHECK(doc.forecast->tasks == 0);
  run.policy.scheduler.time_limit = 20min;
  CHECK(status_of(site, run, Instant{}, WallTime{}).forecast->tasks > 0);
  auto later = doc;
  later.state = "training";
  wire::Beat half;
  half.iteration_max = Iteration(1500);
  half.attempt = Attempt(later.attempt);
  lay_over(later, half, 0s);
  CHECK(*later.eta_s == doctest::Approx(*doc.eta_s / 2));
  CHECK(later.forecast->high_s == doctest::Approx(doc.forecast->high_s / 2));
  run.training = training::Stopped{};
  CHECK(!status_of(site, run, Instant{}, WallTime{}).eta_s);
}
