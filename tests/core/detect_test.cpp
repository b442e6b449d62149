// Detectors: pure functions of state and digest.
#include "core/signals/detect.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::core;

namespace {

RunState run_with(Duration floor, Duration ceiling) {
  RunState run;
  run.policy.hang.floor = floor;
  run.policy.hang.ceiling = ceiling;
  return run;
}

wire::Beat beat_of(std::vector<std::int64_t> ages_ms) {
  wire::Beat beat;
  beat.phase = wire::Phase::Iteration;
  beat.ranks = beat.reporting = static_cast<std::uint32_t>(ages_ms.size());
  beat.progress_age_ms = ages_ms.front();
  beat.newest_progress_age_ms = ages_ms.back();
  for (std::size_t i = 0; i < ages_ms.size(); ++i)
    beat.oldest.push_back({Rank{static_cast<std::uint32_t>(i)}, NodeName("n" + std::to_string(i)),
                           ages_ms[i], wire::Phase::Iteration, Iteration{7}});
  return beat;
}

}  // namespace

TEST_CASE("hang: nothing learned -> the ceiling of the phase; learned -> 3 x p99 within bounds") {
  RunState run = run_with(10s, 30min);
  CHECK(signals::phase_deadline(run, wire::Phase::Iteration) == 30min);
  CHECK(signals::phase_deadline(run, wire::Phase::Evaluation) == run.policy.hang.evaluation);
  run.health.phases["iteration"].durations.add(1s, 20);
  CHECK(signals::phase_deadline(run, wire::Phase::Iteration) == 10s);
  run.health.phases["iteration"].durations.add(60s, 200);
  const Duration learned = signals::phase_deadline(run, wire::Phase::Iteration);
  CHECK(learned >= 180s);
  CHECK(learned <= 203s);
  run.health.phases["iteration"].factor = 2;
  CHECK(signals::phase_deadline(run, wire::Phase::Iteration) == 2 * learned);
}

TEST_CASE("hang: ages below the limit -> ok; one above while others move -> that rank and node") {
  RunState run = run_with(10s, 10s);
  // Two beats of half a second early: the verdict is to be there at 10 s.
  CHECK(signals::detect_hang(run, beat_of({8999, 100, 100})).verdict == signals::Verdict::Ok);
  const auto hang = signals::detect_hang(run, beat_of({9000, 100, 100}));
  CHECK(hang.verdict == signals::Verdict::Bad);
  CHECK(hang.nodes == std::vector<NodeName>{NodeName("n0")});
  CHECK(hang.evidence.find("rank 0 on n0") != std::string::npos);
}

TEST_CASE("hang: all stalled together -> no node is named; one clearly first -> that one") {
  RunState run = run_with(10s, 10s);
  CHECK(signals::detect_hang(run, beat_of({12000, 11995, 11990})).nodes.empty());
  const auto hang = signals::detect_hang(run, beat_of({15000, 12010, 12000}));
  CHECK(hang.nodes == std::vector<NodeName>{NodeName("n0")});
}

TEST_CASE("hang: ages that differ by less than a quarter of an iteration -> no node is named") {
  RunState run = run_with(10s, 10s);
  run.health.phases["iteration"].durations.add(1s, 20);
  const auto hang = signals::detect_hang(run, beat_of({9010, 9005, 9000, 8990}));
  CHECK(hang.verdict == signals::Verdict::Bad);
  CHECK(hang.nodes.empty());
  CHECK(hang.evidence.find("which rank fell silent first is not clear") != std::string::npos);
  CHECK(signals::detect_hang(run, beat_of({9010, 8990, 8800, 8600})).nodes.empty());
}

TEST_CASE("hang: all ranks of a node before all others -> that node; of three nodes -> none") {
  RunState run = run_with(10s, 10s);
  run.health.phases["iteration"].durations.add(1s, 20);
  wire::Beat beat = beat_of({9100, 9090, 9080, 8400, 8350});
  CHECK(signals::detect_hang(run, beat).nodes.empty());
  for (std::size_t i = 0; i < 3; ++i) beat.oldest[i].node = NodeName("n0");
  CHECK(signals::detect_hang(run, beat).nodes == std::vector<NodeName>{NodeName("n0")});
}

TEST_CASE("hang: eight ranks of a node, others not listed -> by the age of the next one") {
  RunState run = run_with(10s, 10s);
  run.health.phases["iteration"].durations.add(1s, 20);
  wire::Beat beat = beat_of(std::vector<std::int64_t>(8, 9100));
  for (wire::RankAge& rank : beat.oldest) rank.node = NodeName("n0");
  beat.ranks = beat.reporting = 64;
  beat.newest_progress_age_ms = 8100;
  beat.next_age_ms = 9095;  // the others spread over an iteration
  CHECK(signals::detect_hang(run, beat).nodes.empty());
  beat.next_age_ms = 8200;
  CHECK(signals::detect_hang(run, beat).nodes == std::vector<NodeName>{NodeName("n0")});
}

TEST_CASE("hang: one rank outside of the collective in which all others wait -> that one") {
  RunState run = run_with(10s, 10s);
  run.health.phases["iteration"].durations.add(1s, 20);
  wire::Beat beat = beat_of({9100, 9090, 8500, 8490});  // it came late, and froze
  beat.waiting = 3;
  for (wire::RankAge& rank : beat.oldest) rank.waiting = rank.rank.value != 2;
  const auto hang = signals::detect_hang(run, beat);
  CHECK(hang.nodes == std::vector<NodeName>{NodeName("n2")});
  CHECK(hang.evidence.find("wait in a collective for rank 2 on n2") != std::string::npos);
  beat.oldest[2].age_ms = 900;  // it moves, slowly
  CHECK(signals::detect_hang(run, beat).nodes.empty());
  beat.oldest[2].age_ms = 8500;
  beat.oldest[2].waiting = true;  // all inside: a link, or frozen there
  beat.waiting = 4;
  CHECK(signals::detect_hang(run, beat).nodes.empty());
}

TEST_CASE("hang: peers moved more than an iteration later -> the silent one, at any spread") {
  RunState run = run_with(10s, 10s);
  run.health.phases["iteration"].durations.add(1s, 20);
  const auto hang = signals::detect_hang(run, beat_of({9100, 6000, 3000, 100}));
  CHECK(hang.nodes == std::vector<NodeName>{NodeName("n0")});
}

TEST_CASE("hang: a rank that lags an iteration -> that one, though the ages are alike") {
  RunState run = run_with(10s, 10s);
  wire::Beat beat = beat_of({12000, 11995, 11990});
  beat.oldest[0].iteration = Iteration{6};
  CHECK(signals::detect_hang(run, beat).nodes == std::vector<NodeName>{NodeName("n0")});
}

TEST_CASE("hang: ranks that never reported -> the age of the phase counts") {
  RunState run = run_with(10s, 10s);
  wire::Beat beat;
  beat.phase = wire::Phase::Startup;
  beat.ranks = 4;
  beat.phase_age_ms = 31 * 60 * 1000;
  CHECK(signals::detect_hang(run, beat).verdict == signals::Verdict::Bad);
  beat.phase_age_ms = 29 * 60 * 1000;
  CHECK(signals::detect_hang(run, beat).verdict == signals::Verdict::Ok);
}

TEST_CASE("limit: margin -> at least twice the longest save, at most half of the time limit") {
  RunState run;
  run.policy.scheduler.time_limit = 20h;
  run.policy.train.exit_before_limit = 10min;
  CHECK(signals::limit_margin(run) == 10min);
  run.health.checkpoint.longest_seconds = 900;
  CHECK(signals::limit_margin(run) == 30min);
  run.policy.scheduler.time_limit = 10min;
  CHECK(signals::limit_margin(run) == 5min);
}

TEST_CASE("crash loop: failures in a row and in all -> named beyond the limit only") {
  Budget budget;
  RecoverPolicy policy;
  budget.without_progress = policy.restarts_without_progress;
  budget.spent = policy.restarts_total;
  CHECK_FALSE(signals::crash_loop(budget, policy).has_value());
  ++budget.without_progress;
  CHECK(signals::crash_loop(budget, policy).has_value());
  budget.without_progress = 0;
  ++budget.spent;
  CHECK(signals::crash_loop(budget, policy).has_value());
}

TEST_CASE("hang: no iteration line at the limit of the start -> is stdout buffered?") {
  RunState run = run_with(10s, 10s);
  wire::Beat beat;
  beat.phase = wire::Phase::Startup;
  beat.ranks = 4;
  beat.phase_age_ms = 31 * 60 * 1000;
  const auto evidence = [&] { return signals::detect_hang(run, beat).evidence; };
  run.policy.train.command = {"/opt/stoker/bin/stoker-train", "--config", "t.yaml"};
  CHECK(evidence().find("buffered") == std::string::npos);  // its pages need no output
  run.policy.train.command = {"python3", "train.py"};
  CHECK(evidence().find("PYTHONUNBUFFERED=1 is set") != std::string::npos);
  CHECK(evidence().find("stdbuf -oL") != std::string::npos);
  run.policy.train.environment["PYTHONUNBUFFERED"] = "";  // train.unbuffered: false
  CHECK(evidence().ends_with("; no iteration line yet: is stdout buffered? PYTHONUNBUFFERED=1"));
  beat.reporting = 1;  // a rank has shown progress: its output arrives
  CHECK(evidence().find("buffered") == std::string::npos);
  beat.reporting = 0;
  run.policy.train.command.clear();
  run.policy.train.environment.clear();
  run.policy.train.batch_script = "/home/alice/tr1.slurm";  // its ranks have their own environment
  beat.phase_age_ms = 200 * 60 * 1000;
  CHECK(evidence().ends_with("; no iteration line yet: is stdout buffered? PYTHONUNBUFFERED=1"));
}
