// How much a month of one healthy run takes in the journal: heartbeats of 512 ranks for a day of
// virtual time, folded as watch/ folds them, through the engine into the real file.
#include <cstdio>
#include <doctest/doctest.h>
#include <utility>

#include "core/engine/engine.hpp"
#include "core/state.hpp"
#include "daemon/journal/sqlite_journal.hpp"
#include "sim/ports.hpp"
#include "tests/daemon/fixtures.hpp"
#include "watch/digest_folder.hpp"

using namespace stoker;
using namespace stoker::daemon;
using namespace stoker::daemon::test;

namespace {

constexpr double kGoalMb = 50;

// Every effect works, at the next turn.
struct Answers final : core::EffectRunner {
  std::vector<core::Input> results;
  void start(const core::Intent& intent) override {
    core::EffectDone done{intent.key, core::kind_of(intent.action), {1, 0}, ""};
    results.push_back({intent.run, std::move(done), {}});
  }
};

// Iterations of 11.7 s, each with figures of full precision, as a real training has them.
wire::Beat beat_at(std::uint64_t second) {
  wire::Beat beat;
  const auto n = second * 10 / 117;
  beat.attempt = Attempt(1);
  beat.phase = wire::Phase::Iteration;
  beat.phase_age_ms = static_cast<std::int64_t>(second * 1000);
  beat.ranks = beat.reporting = 512;
  beat.iteration_min = beat.iteration_max = Iteration(90'000 + n);
  beat.total = 115'311;
  beat.consumed_samples = (90'000 + n) * 2048;
  beat.consumed_tokens = beat.consumed_samples * 2048;
  beat.loss = 2.0 + 1.0 / static_cast<double>(n + 3);
  beat.learning_rate = 6e-5 / static_cast<double>(n + 7);
  beat.gradient_norm = 0.123 + 1.0 / static_cast<double>(n + 11);
  beat.tflops = 149.7 + 1.0 / static_cast<double>(n + 13);
  if (second * 10 % 117 < 10)
    beat.iteration_ms = {1, 11700.0 + 1.0 / static_cast<double>(n + 17),
                         11700.0 + 1.0 / static_cast<double>(n + 17),
                         11700.0 + 1.0 / static_cast<double>(n + 17)};
  if (second * 10 % 117 < 10)
    wire::add(beat.losses, {beat.iteration_max, beat.loss, beat.gradient_norm, {}, 0, 0});
  beat.progress_age_ms = static_cast<std::int64_t>(second * 1000 % 11'700);
  beat.newest_progress_age_ms = beat.progress_age_ms / 2;
  for (std::uint32_t rank = 0; rank < 8; ++rank)
    beat.oldest.push_back({Rank(rank), NodeName("n001"), beat.progress_age_ms - rank,
                           wire::Phase::Iteration, beat.iteration_min});
  beat.free_memory_bytes = (std::uint64_t{400} << 30) + second * 4096;
  beat.free_shm_bytes = (std::uint64_t{250} << 30) + second * 4096;
  return beat;
}

core::EventBody said(wire::AgentBody body) {
  core::AgentSaid event;
  event.generation = Generation(1);
  event.from = "lead";
  event.event.body = std::move(body);
  return event;
}

void begin(core::Engine& engine, const RunName& run) {
  core::RunPolicy policy;
  policy.run = run;
  policy.directory = "/gpfs/projects/tr11/tr11-176B-ml";
  policy.train.command = {"stoker-train", "--config", "train.yaml"};
  REQUIRE(engine.start({}));
  REQUIRE(engine.feed({{run, core::RunAdded{policy, "alice"}, {}}}));
  const Token token = engine.state().runs.at(run).jobs.supply.begin()->first;
  wire::GenerationStarted generation;
  generation.generation = Generation(1);
  generation.token = token;
  generation.job = {1, 1};
  generation.nodes = {NodeName("n001")};
  wire::AttemptStarted attempt;
  attempt.attempt = Attempt(1);
  attempt.world_size = 512;
  REQUIRE(engine.feed({{run, said(generation), {}}, {run, said(attempt), {}}}));
}

}  // namespace

TEST_CASE("journal: a month of one run -> at most 50 MB") {
  Folder folder;
  const RunName run("tr11-176B-ml");
  auto opened = SqliteJournal::open({folder / "journal.db", false, {}});
  REQUIRE(opened);
  sim::SimClock clock;
  Answers effects;
  core::Engine engine(**opened, effects, clock, "build");
  begin(engine, run);
  watch::DigestFolder folded(Generation(1), watch::digest_interval(60s));
  core::Cursor cursor{"/gpfs/projects/tr11/tr11-176B-ml/gen-000001/lead.jsonl", 1, 2, 3, 4, ""};
  const auto size = [&] {
    auto db = Database::open(folder / "journal.db", OpenMode::ReadOnly);
    REQUIRE(db);
    return *db->integer("PRAGMA page_count") * *db->integer("PRAGMA page_size");
  };
  constexpr std::uint64_t kWarm = 3600, kHours = 6;
  std::int64_t before = 0;
  std::uint64_t rows = 0;
  for (std::uint64_t second = 1; second <= kWarm + kHours * 3600; ++second) {
    if (second == kWarm) before = size();
    clock.move_to(Instant{} + std::chrono::seconds(second));
    if (auto digest = folded.beat(beat_at(second), clock.now())) {
      cursor.offset += 30 * 700;
      cursor.parser_state = to_json_text(folded.state());
      REQUIRE(engine.feed({{run, std::move(*digest), {cursor}}}));
      ++rows;
    }
    if (!effects.results.empty()) REQUIRE(engine.feed(std::exchange(effects.results, {})));
    if (const auto wake = engine.wake_at(); wake && *wake <= clock.now())
      REQUIRE(engine.feed({{RunName(), core::Tick{}, {}}}));
  }
  const double month = static_cast<double>(size() - before) / kHours * 24 * 30.4 / 1e6;
  std::printf("journal: %.1f MB a month and run, %llu rows an hour (goal %.0f MB)\n", month,
              static_cast<unsigned long long>(rows / (kHours + 1)), kGoalMb);
  CHECK(month <= kGoalMb);
  CHECK(month > 1);  // something was written
  CHECK(core::audit_journal(**opened));
}
