// Progress of a run without agents: log lines to digests, the age of the last progress across
// daemons.
#include "daemon/logs/script_progress.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::daemon;

namespace {

core::RunPolicy script_policy() {
  core::RunPolicy policy;
  policy.run = RunName("tr11");
  policy.train.batch_script = "/home/a/tr11.slurm";
  policy.train.ranks_per_node = 8;
  policy.scheduler.nodes = {{0, 2}};
  return policy;
}

// As Megatron-LM prints it.
std::string iteration(int n, int total = 1000) {
  return "[default7]: iteration " + std::to_string(n) + "/ " + std::to_string(total) +
         " | consumed samples: 64 | elapsed time per iteration (ms): 2500.0 | learning rate: "
         "5.277E-05 | global batch size: 8 | lm loss: 2.215699E+00 | grad norm: 0.267 |";
}

const Instant kStart = Instant{} + 1h;
const WallTime kWall = WallTime(std::chrono::hours(500000));

// What a daemon leaves behind that saw this iteration of generation 7 after a minute.
core::Cursor left_behind(int seen) {
  ScriptProgress before(script_policy(), {});
  before.set_generation(Generation(7), kStart, kWall);
  before.line("a", iteration(seen), kStart + 60s, kWall + 60s);
  return before.cursor();
}

}  // namespace

TEST_CASE("script_progress: start-up, iterations, silence -> phases and ages") {
  ScriptProgress progress(script_policy(), {});
  CHECK(!progress.poll(kStart, true));  // no job runs
  progress.set_generation(Generation(3), kStart, kWall);
  auto digest = progress.poll(kStart + 10s, true);
  REQUIRE(digest);
  CHECK(digest->generation == Generation(3));
  CHECK(digest->last.phase == wire::Phase::Startup);
  CHECK(digest->last.ranks == 16);
  CHECK(digest->last.reporting == 0);
  CHECK(digest->last.phase_age_ms == 10000);

  progress.line("a", "loading checkpoint", kStart + 20s, kWall + 20s);
  progress.line("a", iteration(41), kStart + 60s, kWall + 60s);
  progress.line("a", iteration(42), kStart + 62s, kWall + 62s);
  digest = progress.poll(kStart + 63s, false);
  REQUIRE(digest);
  CHECK(digest->last.phase == wire::Phase::Iteration);
  CHECK(digest->last.iteration_max == Iteration(42));
  CHECK(digest->last.total == 1000);
  CHECK(digest->iteration_ms.count == 2);
  CHECK(digest->iteration_ms.p50 == 2500);
  CHECK(digest->losses.count == 2);
  CHECK(digest->last.progress_age_ms == 1000);

  CHECK(!progress.poll(kStart + 64s, false));  // only ages: reported when asked
  digest = progress.poll(kStart + 30min, true);
  REQUIRE(digest);
  CHECK(digest->last.progress_age_ms == 30 * 60 * 1000 - 62000);
  progress.line(
      "a", " validation loss at iteration 42 | lm loss value: 2.3E+00 | lm loss PPL: 9.9E+00 |",
      kStart + 31min, kWall + 31min);
  CHECK(progress.poll(kStart + 31min, true)->last.progress_age_ms == 0);
}

TEST_CASE("script_progress: two logs with the same lines -> counted once") {
  ScriptProgress progress(script_policy(), {});
  progress.set_generation(Generation(1), kStart, kWall);
  for (int n = 1; n <= 5; ++n) progress.line("main_log", iteration(n), kStart + 1s, kWall + 1s);
  for (int n = 1; n <= 5; ++n) progress.line("slurm.out", iteration(n), kStart + 2s, kWall + 2s);
  const auto digest = progress.poll(kStart + 3s, true);
  CHECK(digest->last.iteration_max == Iteration(5));
  CHECK(digest->iteration_ms.count == 5);
  CHECK(digest->last.progress_age_ms == 2000);
}

TEST_CASE("script_progress: a daemon that comes back knows how old the last progress is") {
  const core::Cursor cursor = left_behind(12);
  ScriptProgress after(script_policy(), {cursor});
  after.set_generation(Generation(7), kStart, kWall + 20min);  // another clock, 19 minutes later
  const auto digest = after.poll(kStart, true);
  REQUIRE(digest);
  CHECK(digest->last.phase == wire::Phase::Iteration);
  CHECK(digest->last.iteration_max == Iteration(12));
  CHECK(digest->last.progress_age_ms == 19 * 60 * 1000);
  ScriptProgress other(script_policy(), {cursor});
  other.set_generation(Generation(8), kStart, kWall + 20min);
  CHECK(other.poll(kStart, true)->last.iteration_max == Iteration{});
}

TEST_CASE(
    "script_progress: the job is over and the log grows -> reported once a line, for its "
    "generation") {
  ScriptProgress progress(script_policy(), {});
  progress.set_generation(Generation(4), kStart, kWall);
  progress.line("a", iteration(1), kStart + 1s, kWall + 1s);
  CHECK(progress.poll(kStart + 1s, false));
  progress.set_generation(Generation{}, kStart + 2s, kWall + 2s);
  CHECK(!progress.poll(kStart + 3s, true));
  progress.line("a", iteration(2), kStart + 4s, kWall + 4s);
  const auto late = progress.poll(kStart + 4s, false);
  REQUIRE(late);
  CHECK(late->generation == Generation(4));
  CHECK(!progress.poll(kStart + 5s, false));
}

TEST_CASE("script_progress: a daemon that began after the job's end -> its last lines too") {
  ScriptProgress after(script_policy(), {left_behind(1)});
  after.set_generation(Generation{}, kStart, kWall + 20min);
  CHECK(!after.poll(kStart + 1s, true));
  after.line("a", iteration(1000), kStart + 2s, kWall + 20min);
  const auto late = after.poll(kStart + 2s, false);
  REQUIRE(late);
  CHECK(late->generation == Generation(7));
  CHECK(late->last.iteration_max == Iteration(1000));
  CHECK(late->last.total == 1000);
  CHECK(!after.poll(kStart + 3s, true));
}

TEST_CASE("script_progress: the last iteration -> a digest at once") {
  ScriptProgress progress(script_policy(), {});
  progress.set_generation(Generation(3), kStart, kWall);
  progress.line("a", iteration(998), kStart + 60s, kWall + 60s);
  CHECK(progress.poll(kStart + 60s, false));
  progress.line("a", iteration(999), kStart + 62s, kWall + 62s);
  CHECK(!progress.poll(kStart + 62s, false));
  progress.line("a", iteration(1000), kStart + 64s, kWall + 64s);
  const auto digest = progress.poll(kStart + 64s, false);
  REQUIRE(digest);
  CHECK(digest->last.iteration_max == Iteration(1000));
  CHECK(!progress.poll(kStart + 65s, false));
}

TEST_CASE("script_progress: train.finished names an iteration -> that is the total") {
  core::RunPolicy policy = script_policy();
  policy.train.finished.iteration = 500;
  ScriptProgress progress(policy, {});
  progress.set_generation(Generation(3), kStart, kWall);
  progress.line("a", iteration(500), kStart + 60s, kWall + 60s);
  const auto digest = progress.poll(kStart + 60s, false);
  REQUIRE(digest);
  CHECK(digest->last.total == 500);
}
