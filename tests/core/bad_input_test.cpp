// What must not harm the decider, from any sender: journals of others, counters that run
// backwards, invalid numbers, ranks from the future, two nodes of one name, a flood.
#include <doctest/doctest.h>
#include <limits>

#include "core/engine/engine.hpp"
#include "sim/world.hpp"

using namespace stoker;
using namespace stoker::core;

namespace {

const RunName kDemo("demo");
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// A run whose first attempt trains on n1 and n2.
struct Trained {
  sim::World world;
  Token token;

  Trained() {
    REQUIRE(world.start(DaemonStarted{"build", Epoch{1}, 0ns, true}));
    RunPolicy policy;
    policy.run = kDemo;
    policy.directory = "/runs/demo";
    policy.train.command = {"stoker-train"};
    policy.scheduler.nodes = {{0, 2}};
    policy.recover.rollback_enabled = true;
    REQUIRE(world.feed({kDemo, RunAdded{policy, "alice"}, {}}));
    token = world.scheduler.token_of(1);
    JobSeen seen;
    seen.token = token;
    seen.job = {1, 1};
    seen.state = JobState::Running;
    seen.nodes = std::vector{NodeName("n1"), NodeName("n2")};
    REQUIRE(world.feed({kDemo, seen, {}}));
    wire::GenerationStarted started;
    started.generation = Generation(1);
    started.token = token;
    started.job = {1, 1};
    started.order = OrderNumber(1);
    started.nodes = seen.nodes.list();
    say(started);
    wire::AttemptStarted attempt;
    attempt.attempt = Attempt(1);
    attempt.nodes = seen.nodes.list();
    attempt.world_size = 2;
    say(attempt);
    for (std::uint64_t n = 1; n <= 40; ++n) beat(n);
    REQUIRE(where() == "training");
  }
  void say(wire::AgentBody body) {
    wire::AgentEvent event;
    event.at = world.clock.now();
    event.body = std::move(body);
    REQUIRE(world.feed({kDemo, AgentSaid{Generation(1), "lead", std::move(event)}, {}}));
  }
  [[nodiscard]] Digest digest(std::uint64_t iteration) const {
    Digest d;
    d.generation = Generation(1);
    d.last.attempt = Attempt(1);
    d.last.phase = wire::Phase::Iteration;
    d.last.ranks = d.last.reporting = 2;
    d.last.iteration_min = d.last.iteration_max = Iteration(iteration);
    d.last.consumed_samples = iteration * 8;
    d.last.loss = 2.2;
    d.last.learning_rate = 6e-5;
    d.last.gradient_norm = 0.2;
    d.last.tflops = 100;
    d.iteration_ms = {1, 1000, 1000, 1000};
    d.losses.count = 1;
    d.losses.mean = d.losses.low = d.losses.high = 2.2;
    d.losses.high_at = Iteration(iteration);
    d.last.slowest = wire::SlowestRank{Rank(1), NodeName("n2"), 900, 890};
    return d;
  }
  void tell(const Digest& d) {
    world.clock.move_to(world.clock.now() + 1s);
    REQUIRE(world.feed({kDemo, d, {}}));
  }
  void beat(std::uint64_t iteration) { tell(digest(iteration)); }
  [[nodiscard]] std::string where() const { return state_name(run().training); }
  [[nodiscard]] const RunState& run() const { return world.state().runs.at(kDemo); }
  // What was journalled can be read and decides the same; so can the state.
  void whole() {
    const Status audited = audit_journal(world.journal);
    CHECK_MESSAGE(audited, (audited ? "" : audited.error().message()));
    const std::string text = to_json_text(world.state());
    const auto again = from_json_text<SiteState>(text, "state");
    REQUIRE_MESSAGE(again, (again ? "" : again.error().message()));
    CHECK(to_json_text(*again) == text);
  }
};

// The journal of a world, with one row missing.
struct Holed : Journal {
  sim::MemoryJournal& whole;
  Sequence missing;
  Holed(sim::MemoryJournal& journal, Sequence row) : whole(journal), missing(row) {}
  Status append(const std::vector<JournalRow>& rows, const StateRow& state,
                const std::vector<Cursor>& cursors) override {
    return whole.append(rows, state, cursors);
  }
  [[nodiscard]] bool wants_state(Sequence) const override { return true; }
  Result<std::optional<StateRow>> load_state() override { return std::optional<StateRow>(); }
  Result<std::vector<JournalRow>> rows_after(Sequence seq, std::size_t limit) override {
    auto rows = whole.rows_after(seq, limit);
    if (rows) std::erase_if(*rows, [this](const JournalRow& row) { return row.seq == missing; });
    return rows;
  }
  Result<std::vector<Intent>> open_intents() override { return whole.open_intents(); }
  Status close_intent(const EffectKey& key) override { return whole.close_intent(key); }
  Result<std::vector<Cursor>> cursors() override { return whole.cursors(); }
};

struct Idle : EffectRunner {
  void start(const Intent&) override {}
};

}  // namespace

TEST_CASE("bad input: a journal of a newer schema -> refused, with what to do") {
  Trained t;
  const auto state = t.world.journal.load_state();
  StateRow newer = **state;
  newer.schema = kStateSchema + 1;
  REQUIRE(t.world.journal.append({}, newer, {}));
  t.world.kill();
  const Status started = t.world.start(DaemonStarted{"build", Epoch{2}, 0ns, true});
  REQUIRE_FALSE(started);
  CHECK(started.error().message().find("schema 2") != std::string::npos);
  CHECK(started.error().message().find("as new as") != std::string::npos);
}

TEST_CASE("bad input: a journal with a hole -> the missing row is named, nothing is decided") {
  Trained t;
  Holed holed(t.world.journal, Sequence(5));
  const Status audited = audit_journal(holed);
  REQUIRE_FALSE(audited);
  CHECK(audited.error().message().find("row 5 is missing, 6 follows") != std::string::npos);
  Idle idle;
  Engine engine(holed, idle, t.world.clock, "build");
  const Status started = engine.start(DaemonStarted{"build", Epoch{2}, 0ns, true});
  REQUIRE_FALSE(started);
  CHECK(started.error().message().find("row 5 is missing, 6 follows") != std::string::npos);
}

TEST_CASE("bad input: no number in any numeric field of a digest -> journalled, read, harmless") {
  using Set = void (*)(Digest&, double);
  const std::vector<std::pair<const char*, Set>> fields{
      {"loss", [](Digest& d, double v) { d.last.loss = v; }},
      {"learning_rate", [](Digest& d, double v) { d.last.learning_rate = v; }},
      {"gradient_norm", [](Digest& d, double v) { d.last.gradient_norm = v; }},
      {"tflops", [](Digest& d, double v) { d.last.tflops = v; }},
      {"watts", [](Digest& d, double v) { d.last.gpu_watts = v; }},
      {"beat p50",
       [](Digest& d, double v) {
         d.last.iteration_ms = {1, v, v, v};
       }},
      {"p50", [](Digest& d, double v) { d.iteration_ms.p50 = v; }},
      {"p99", [](Digest& d, double v) { d.iteration_ms.p99 = v; }},
      {"max", [](Digest& d, double v) { d.iteration_ms.max = v; }},
      {"mean", [](Digest& d, double v) { d.losses.mean = v; }},
      {"low", [](Digest& d, double v) { d.losses.low = v; }},
      {"high", [](Digest& d, double v) { d.losses.high = v; }},
      {"losses' norm", [](Digest& d, double v) { d.losses.gradient_norm = v; }},
      {"scale", [](Digest& d, double v) { d.losses.scale = v; }},
      {"compute time", [](Digest& d, double v) { d.last.slowest->ms = v; }},
      {"compute times", [](Digest& d, double v) { d.last.slowest->median_ms = v; }}};
  for (const auto& field : fields)
    for (const double value : {kNan, kInfinite, -kInfinite, 1e308, -1e308}) {
      INFO(field.first << " " << value);
      Trained t;
      for (std::uint64_t n = 41; n <= 80; ++n) {
        Digest d = t.digest(n);
        if (n < 60) field.second(d, value);
        t.tell(d);
      }
      CHECK(t.run().health.progress.iteration == Iteration(80));
      CHECK_FALSE(t.run().accounting.goodput.node_hours < 0);
      t.whole();
    }
}

TEST_CASE("bad input: no number in what agents say of saves -> journalled, read, harmless") {
  for (const double value : {kNan, kInfinite, -1.0}) {
    Trained t;
    t.say(wire::CheckpointSaved{Iteration(40), "step-000040.g000001", 1, value});
    CHECK(t.where() == "training");
    CHECK(t.run().health.checkpoint.iteration == Iteration(40));
    CHECK(t.run().health.checkpoint.longest_seconds >= 0);
    t.whole();
  }
}

TEST_CASE("bad input: counters that run backwards -> no rank is ended, the best stays the best") {
  Trained t;
  for (const std::uint64_t n : {39u, 3u, 0u, 38u}) t.beat(n);
  Digest fewer = t.digest(41);
  fewer.last.consumed_samples = 1;
  fewer.last.saves_answered = 0;
  t.tell(fewer);
  CHECK(t.where() == "training");
  CHECK(t.run().recovery.budget.best == Iteration(41));
  t.say(wire::Acknowledged{"save", 0, ""});
  t.say(wire::PhaseEdge{Attempt(0), wire::Phase::Load, Iteration(0)});
  CHECK(t.where() == "training");
  t.whole();
}

TEST_CASE("bad input: ranks that report the future -> taken as of this moment, never for silence") {
  Trained t;
  for (std::uint64_t n = 41; n < 60; ++n) {
    Digest d = t.digest(n);
    d.last.progress_age_ms = d.last.newest_progress_age_ms = d.last.phase_age_ms =
        std::numeric_limits<std::int64_t>::min() / 2;
    d.last.oldest = {{Rank(1), NodeName("n2"), -3'600'000, wire::Phase::Iteration, Iteration(n)}};
    t.tell(d);
  }
  CHECK(t.where() == "training");
  CHECK(t.run().health.progress.oldest <= t.world.clock.now());
  CHECK(t.run().health.progress.phase_since <= t.world.clock.now());
  // And a real silence is still one.
  Digest still = t.digest(60);
  still.last.progress_age_ms = still.last.newest_progress_age_ms = 3 * 3'600'000;
  t.tell(still);
  CHECK(t.where() == "suspect");
  t.whole();
}

TEST_CASE("bad input: two nodes with one name -> one entry, and the run goes on") {
  Trained t;
  wire::AttemptStarted attempt;
  attempt.attempt = Attempt(2);
  attempt.nodes = {NodeName("n1"), NodeName("n1")};
  attempt.world_size = 2;
  t.say(attempt);
  wire::AgentJoined joined;
  joined.node = NodeName("n1");
  t.say(joined);
  t.say(joined);
  NodeSeen seen;
  seen.node = NodeName("n1");
  seen.state = "idle";
  REQUIRE(t.world.feed({RunName{}, seen, {}}));
  seen.usable = false;
  seen.state = "down";
  REQUIRE(t.world.feed({RunName{}, seen, {}}));
  CHECK(t.world.state().ledger.nodes.size() == 1);
  Digest d = t.digest(1);
  d.last.attempt = Attempt(2);
  t.tell(d);
  CHECK(t.where() == "training");
  t.whole();
}

TEST_CASE("bad input: kills that are not known to be the run's -> said, no suspicion, no alert") {
  Trained t;
  const auto alerts = t.world.alerts.accepted.size();
  wire::KernelLine kill;
  kill.node = NodeName("n2");
  kill.event_class = "oom_kill";
  kill.text = "Memory cgroup out of memory: Killed process 7 (python) total-vm:1kB";
  const auto health = [&] {
    return health_of(t.world.state().ledger.nodes.at(NodeName("n2")), t.world.clock.now());
  };
  t.say(kill);  // of an agent that looks at no owner
  kill.node_suspect = NodeSuspect::No;
  for (int i = 0; i < 3; ++i) t.say(kill);
  CHECK(health() == NodeHealth::Ok);
  CHECK(t.world.alerts.accepted.size() == alerts);
  kill.node_suspect = NodeSuspect::IfRepeated;
  for (int i = 0; i < 3; ++i) t.say(kill);  // the run's own, by several lines
  CHECK(health() == NodeHealth::Suspect);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kFlood = 20'000;  // a sanitizer takes its time
#else
constexpr std::uint64_t kFlood = 1'000'000;
#endif

TEST_CASE("bad input: 10^6 events in a second -> bounded, said once, nothing lost") {
  Trained t;
  t.world.journal.forget_rows();
  const auto alerts = t.world.alerts.accepted.size();
  const Sequence before = t.world.state().seq;
  wire::AgentEvent line;
  line.at = t.world.clock.now();
  wire::KernelLine xid;
  xid.node = NodeName("n2");
  xid.event_class = "xid";
  xid.text = "NVRM: Xid (PCI:0000:3b:00): 95, uncontained ECC error";
  xid.xid = 95;
  xid.gpu_pci = "0000:3b:00";
  line.body = xid;
  constexpr std::size_t kTurn = 1000;
  for (std::uint64_t n = 0; n < kFlood; n += kTurn) {
    std::vector<Input> inputs(kTurn, Input{kDemo, AgentSaid{Generation(1), "lead", line}, {}});
    REQUIRE(t.world.feed_turn(std::move(inputs)));
  }
  CHECK(t.world.state().seq.value >= before.value + kFlood);
  CHECK(t.world.alerts.accepted.size() <= alerts + 3);
  CHECK(t.world.state().ledger.nodes.at(NodeName("n2")).evidence.size() <= kEvidenceKept);
  CHECK(to_json_text(t.world.state()).size() < 256 * 1024);
}
