// kill -9 at each labelled point on the way of an effect: before and after the journal's append,
// before and after every call of a port, before the result is fed. At any point, the next
// daemon ends with the same world: one submission, one order, the newest control.json.
#include <deque>
#include <doctest/doctest.h>
#include <set>

#include "core/engine/engine.hpp"
#include "core/state.hpp"
#include "daemon/journal/sqlite_journal.hpp"
#include "sim/ports.hpp"
#include "tests/daemon/fixtures.hpp"

using namespace stoker;
using namespace stoker::daemon;
using namespace stoker::daemon::test;

namespace {

struct Killed {
  std::string at;
};

// Counts the points that are passed; throws Killed at the one that was chosen.
struct Points {
  int until = -1;  // -1: never
  int passed = 0;
  void pass(const std::string& label) {
    if (passed++ == until) throw Killed{label};
  }
};

class Files final : public sim::SimFiles {
 public:
  explicit Files(Points& points) : points_(points) {}
  Status replace(const std::string& path, std::string_view text) override {
    points_.pass("before " + path);
    auto done = SimFiles::replace(path, text);
    points_.pass("after " + path);
    return done;
  }
  Result<bool> create_once(const std::string& path, std::string_view text) override {
    points_.pass("before " + path);
    auto done = SimFiles::create_once(path, text);
    points_.pass("after " + path);
    return done;
  }

 private:
  Points& points_;
};

class Scheduler final : public sim::SimScheduler {
 public:
  explicit Scheduler(Points& points) : points_(points) {}
  core::PortResult<JobId> submit(const core::SubmitRequest& request) override {
    points_.pass("before submit");
    auto done = SimScheduler::submit(request);
    points_.pass("after submit");
    return done;
  }
  core::PortResult<std::monostate> cancel(const core::Cancel& cancel) override {
    points_.pass("before cancel");
    auto done = SimScheduler::cancel(cancel);
    points_.pass("after cancel");
    return done;
  }

 private:
  Points& points_;
};

// The real journal; remembers which events it holds, as the readers' cursors do.
class Journal final : public core::Journal {
 public:
  Journal(const std::string& path, Points& points, std::set<std::string>& held)
      : points_(points), held_(held) {
    auto opened = SqliteJournal::open({path, false, {}});
    REQUIRE_MESSAGE(opened, (opened ? "" : opened.error().message()));
    inner_ = std::move(*opened);
  }
  Status append(const std::vector<core::JournalRow>& rows, const core::StateRow& state,
                const std::vector<core::Cursor>& cursors) override {
    points_.pass("before append");
    STOKER_TRY_STATUS(inner_->append(rows, state, cursors));
    for (const auto& row : rows) held_.insert(to_json_text(row.event.body));
    points_.pass("after append");
    return ok();
  }
  Result<std::optional<core::StateRow>> load_state() override { return inner_->load_state(); }
  Result<std::vector<core::JournalRow>> rows_after(Sequence seq, std::size_t limit) override {
    return inner_->rows_after(seq, limit);
  }
  Result<std::vector<core::Intent>> open_intents() override { return inner_->open_intents(); }
  Status close_intent(const EffectKey& key) override { return inner_->close_intent(key); }
  Result<std::vector<core::Cursor>> cursors() override { return inner_->cursors(); }

 private:
  Points& points_;
  std::set<std::string>& held_;
  std::unique_ptr<SqliteJournal> inner_;
};

struct Runner final : core::EffectRunner {
  std::deque<core::Intent> waiting;
  void start(const core::Intent& intent) override { waiting.push_back(intent); }
};

const RunName kRun("demo");

core::EventBody said(wire::AgentBody body) {
  core::AgentSaid event;
  event.generation = Generation(1);
  event.from = "lead";
  event.event.body = std::move(body);
  return event;
}

// What happens to the run: each of it has effects.
std::vector<core::EventBody> story(const Token& token) {
  core::RunPolicy policy;
  policy.run = kRun;
  policy.directory = "/runs/demo";
  policy.train.command = {"stoker-train"};
  core::JobSeen runs;
  runs.token = token;
  runs.job = {1, 1};
  runs.state = core::JobState::Running;
  runs.nodes = std::vector<NodeName>{NodeName("n01")};
  wire::GenerationStarted generation;
  generation.generation = Generation(1);
  generation.token = token;
  generation.job = {1, 1};
  generation.order = OrderNumber(1);
  generation.nodes = {NodeName("n01")};
  wire::AttemptStarted attempt;
  attempt.attempt = Attempt(1);
  attempt.nodes = generation.nodes;
  attempt.world_size = 2;
  wire::PhaseEdge iterates;
  iterates.attempt = Attempt(1);
  iterates.phase = wire::Phase::Iteration;
  wire::RankExited dies;
  dies.attempt = Attempt(1);
  dies.node = NodeName("n01");
  dies.signal = 9;
  return {core::RunAdded{policy, "alice"},
          runs,
          said(generation),
          said(attempt),
          said(iterates),
          core::OperatorAsked{"save", {}, {}, "alice", "before lunch", "socket"},
          said(dies)};
}

// One life of the site, over as many daemons as it takes.
class Life {
 public:
  explicit Life(int until) { points_.until = until; }

  std::string killed_at;  // "" = never

  void live() {
    constexpr std::size_t kEvents = 7;
    for (std::size_t next = 0; next <= kEvents;) {
      try {
        if (!engine_) start();
        // A submission without an answer is searched for, and made again if it is unknown.
        if (next == kEvents || (next == 1 && scheduler_.jobs().empty())) settle();
        if (next < kEvents)
          if (const auto body = story(token()).at(next); !held_.contains(to_json_text(body)))
            feed(kRun, body);
        ++next;
      } catch (const Killed& killed) {
        killed_at = killed.at;
        engine_.reset();
        runner_.waiting.clear();
        journal_.reset();
      }
    }
  }

  void check() {
    const core::RunState& run = engine_->state().runs.at(kRun);
    std::size_t living = 0;
    for (const auto& [name, submission] : run.jobs.supply) living += submission.live() ? 1u : 0u;
    CHECK(living == 1);
    CHECK(scheduler_.jobs().size() == 1);
    CHECK(files_.content.contains("/runs/demo/orders/000001.json"));
    CHECK(files_.content["/runs/demo/control.json"] == to_json_text(run.asked.control) + "\n");
    CHECK(run.asked.control.save == 1);
    CHECK(run.asked.control.restart == 1);
    CHECK(core::state_name(run.training) == std::string("recovering"));
    CHECK(engine_->state().open.empty());
    CHECK(journal_->open_intents()->empty());
    const Status audited = core::audit_journal(*journal_);
    CHECK_MESSAGE(audited, (audited ? "" : audited.error().message()));
  }

 private:
  // The token that the first submission has, whichever daemon made it.
  Token token() const {
    if (!scheduler_.jobs().empty()) return scheduler_.jobs().begin()->second.token;
    return Token();
  }
  void start() {
    if (!journal_) journal_ = std::make_unique<Journal>(folder_ / "j.db", points_, held_);
    engine_ = std::make_unique<core::Engine>(*journal_, runner_, clock_, "build");
    core::DaemonStarted started;
    started.epoch = Epoch(++epoch_);
    started.away = epoch_ > 1 ? Duration(1s) : Duration(0);
    started.build = "build";
    const Status begun = engine_->start(started);
    REQUIRE_MESSAGE(begun, (begun ? "" : begun.error().message()));
    drain();
  }
  void feed(const RunName& run, core::EventBody body) {
    const Status fed = engine_->feed({{run, std::move(body), {}}});
    REQUIRE(fed);
    drain();
  }
  void drain() {
    while (!runner_.waiting.empty()) {
      const core::Intent intent = runner_.waiting.front();
      runner_.waiting.pop_front();
      core::PerformContext context;
      if (const auto run = engine_->state().runs.find(intent.run);
          run != engine_->state().runs.end())
        context.policy = run->second.policy;
      context.agent_command_prefix = {"stoker-agent"};
      core::Ports ports{clock_, scheduler_, files_, alerts_};
      points_.pass("before the effect");
      std::vector<core::Input> results;
      for (auto& result : core::perform(intent, context, ports))
        results.push_back({intent.run, std::move(result), {}});
      points_.pass("before the result");
      const Status fed = engine_->feed(std::move(results));
      REQUIRE(fed);
    }
  }
  // Lets repetitions and look-ups come to their end: less than the restart's own patience.
  void settle() {
    for (int second = 0; second < 20; ++second) {
      clock_.move_to(clock_.now() + 1s);
      feed({}, core::Tick{});
    }
  }

  Folder folder_;
  Points points_;
  Files files_{points_};
  Scheduler scheduler_{points_};
  sim::SimAlerts alerts_;
  sim::SimClock clock_;
  Runner runner_;
  std::set<std::string> held_;
  std::uint32_t epoch_ = 0;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<core::Engine> engine_;
};

}  // namespace

TEST_CASE("daemon: killed at any point of an effect -> the next one ends with the same world") {
  int point = 0;
  for (;; ++point) {
    Life life(point);
    life.live();
    CAPTURE(point);
    CAPTURE(life.killed_at);
    life.check();
    if (life.killed_at.empty()) break;
  }
  CHECK(point > 40);  // the story has at least that many points
}
