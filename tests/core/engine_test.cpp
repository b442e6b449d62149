// Engine: one transaction a turn, nothing performed without it, audit by replay.
#include "core/engine/engine.hpp"

#include <doctest/doctest.h>

#include "core/step.hpp"
#include "sim/world.hpp"

using namespace stoker;
using namespace stoker::core;

namespace {

RunPolicy demo_policy() {
  RunPolicy policy;
  policy.run = RunName("demo");
  policy.directory = "/runs/demo";
  policy.train.command = {"stoker-train"};
  return policy;
}
const RunName kDemo("demo");

Status start(sim::World& world, std::uint32_t epoch = 1) {
  return world.start(DaemonStarted{"build", Epoch{epoch}, 0ns, true});
}

}  // namespace

TEST_CASE(
    "engine: the journal is full -> nothing is performed, the state stays, the same works later") {
  sim::World world;
  REQUIRE(start(world));
  const std::string before = to_json_text(world.state());
  world.journal.set_full(true);
  CHECK_FALSE(world.feed({kDemo, RunAdded{demo_policy(), "alice"}, {}}));
  CHECK(to_json_text(world.state()) == before);
  CHECK(world.scheduler.jobs().empty());
  CHECK(world.files.content.empty());
  world.journal.set_full(false);
  CHECK(world.feed({kDemo, RunAdded{demo_policy(), "alice"}, {}}));
  CHECK(world.scheduler.jobs().size() == 1);
  CHECK(world.files.content.contains("/runs/demo/orders/000001.json"));
  CHECK(audit_journal(world.journal));
}

TEST_CASE("engine: the journal is full -> what a node is known for stays as it was, too") {
  sim::World world;
  REQUIRE(start(world));
  NodeSeen seen;
  seen.node = NodeName("n1");
  REQUIRE(world.feed({RunName{}, seen, {}}));
  const std::string before = to_json_text(world.state());
  world.journal.set_full(true);
  seen.usable = !seen.usable;
  CHECK_FALSE(world.feed({RunName{}, seen, {}}));
  CHECK(to_json_text(world.state()) == before);
  world.journal.set_full(false);
  CHECK(world.feed({RunName{}, seen, {}}));
  CHECK(world.state().ledger.nodes.at(seen.node).usable == seen.usable);
  CHECK(audit_journal(world.journal));
}

TEST_CASE("engine: exclusions for all runs that the scheduler did not take -> sent again") {
  sim::World world;
  REQUIRE(start(world));
  for (const char* name : {"n1", "n2", "n3"}) {
    NodeSeen seen;
    seen.node = NodeName(name);
    seen.usable = true;
    REQUIRE(world.feed({RunName{}, seen, {}}));
  }
  REQUIRE(world.feed({kDemo, RunAdded{demo_policy(), "alice"}, {}}));
  world.scheduler.set_blind(true);
  const OperatorAsked exclude{"exclude", {{"for", "9h"}}, {NodeName("n3")}, "alice", "", "socket"};
  REQUIRE(world.feed({RunName{}, exclude, {}}));  // of no run: `stoker exclude NODES`
  const auto sent = [&world] { return world.scheduler.jobs().begin()->second.exclude; };
  CHECK(sent().empty());
  world.scheduler.set_blind(false);
  REQUIRE(world.advance_to(world.clock.now() + 1h));
  CHECK(sent() == std::vector<NodeName>{NodeName("n3")});
  CHECK(audit_journal(world.journal));
}

TEST_CASE("engine: the journal refuses any turn of two runs -> the state stays as it was") {
  sim::World world;
  REQUIRE(start(world));
  const RunName second("second"), third("third");
  RunPolicy other = demo_policy();
  other.run = second;
  other.directory = "/runs/second";
  REQUIRE(world.feed({kDemo, RunAdded{demo_policy(), "alice"}, {}}));
  REQUIRE(world.feed({second, RunAdded{other, "alice"}, {}}));
  const auto& supply = world.state().runs.at(kDemo).jobs.supply;
  REQUIRE(supply.size() == 1);
  JobSeen end;
  end.token = supply.begin()->first;
  end.job = supply.begin()->second.job;
  end.state = JobState::Cancelled;
  end.cancelled_by_us = true;
  REQUIRE(world.feed({kDemo, OperatorAsked{"stop", {}, {}, "alice", "", "socket"}, {}}));
  REQUIRE(world.feed({kDemo, end, {}}));
  const std::string before = to_json_text(world.state());
  NodeSeen down;
  down.node = NodeName("n1");
  down.usable = false;
  DiskLow room;
  room.path = "/runs";
  RunPolicy fresh = demo_policy();
  fresh.run = third;
  RunPolicy again = demo_policy();
  again.run = RunName("zebra");
  room.low = false;
  OperatorAsked rename{"rename", {{"to", "zebra"}}, {}, "alice", "", "socket"};
  OperatorAsked exclude{"exclude", {}, {NodeName("n1")}, "alice", "", "socket"};
  OperatorAsked forget{"forget", {}, {}, "alice", "", "socket"};
  const std::vector<Input> turns[] = {
      {{third, RunAdded{fresh, "alice"}, {}}},
      {{kDemo, rename, {}}, {RunName("zebra"), LeadSpeaks{Generation{1}}, {}}},
      {{RunName("zebra"), forget, {}}, {RunName("zebra"), RunAdded{again, "bob"}, {}}},
      {{second, exclude, {}}},
      {{{}, down, {}}, {second, room, {}}},
      {{{}, DaemonStarted{"newer", Epoch{7}, 1min, true}, {}}}};
  for (const auto& inputs : turns) {
    world.journal.set_full(true);
    CHECK_FALSE(world.feed_turn(inputs));
    CHECK(to_json_text(world.state()) == before);
    (void)world.engine().preview(inputs.front());
    CHECK(to_json_text(world.state()) == before);
  }
  world.journal.set_full(false);
  for (const auto& inputs : turns) {
    CHECK(world.feed_turn(inputs));
    CHECK(world.state().runs.contains(kDemo) == (&inputs == &turns[0]));  // then it is renamed
    const Status audited = audit_journal(world.journal);
    CHECK_MESSAGE(audited, (audited ? "" : audited.error().message()));
  }
}

TEST_CASE("engine: a turn of one run -> the journal gets its state and no other run's") {
  struct Journal final : sim::MemoryJournal {
    std::map<RunName, std::string> written;
    Status append(const std::vector<JournalRow>& rows, const StateRow& state,
                  const std::vector<Cursor>& cursors) override {
      written = state.runs;
      return MemoryJournal::append(rows, state, cursors);
    }
  } journal;
  struct Ignore final : EffectRunner {
    void start(const Intent&) override {}
  } effects;
  sim::SimClock clock;
  Engine engine(journal, effects, clock, "build");
  REQUIRE(engine.start({}));
  for (const char* name : {"a", "b", "c"}) {
    RunPolicy policy = demo_policy();
    policy.run = RunName(name);
    REQUIRE(engine.feed({{policy.run, RunAdded{policy, "alice"}, {}}}));
    CHECK(journal.written.size() == 1);
  }
  RunPolicy changed = demo_policy();
  changed.run = RunName("b");
  changed.group = "others";
  REQUIRE(engine.feed({{changed.run, RunAdded{changed, "alice"}, {}}}));
  REQUIRE(journal.written.size() == 1);
  CHECK(journal.written.contains(RunName("b")));
  NodeSeen seen;
  seen.node = NodeName("n1");
  REQUIRE(engine.feed({{RunName{}, seen, {}}}));  // looks at all, changes none
  CHECK(journal.written.empty());
  CHECK(audit_journal(journal));
}

TEST_CASE("engine: killed before the effects, at every start again -> one live submission") {
  sim::World world;
  REQUIRE(start(world));
  world.drop_effects(true);
  REQUIRE(world.feed({kDemo, RunAdded{demo_policy(), "alice"}, {}}));
  for (int kill = 0; kill < 3; ++kill) {
    world.kill();
    REQUIRE(start(world));
  }
  world.kill();
  world.drop_effects(false);
  REQUIRE(start(world));
  REQUIRE(world.advance_to(Instant{} + 1h));
  CHECK(world.scheduler.jobs().size() == 1);
  std::size_t live = 0;
  for (const auto& [token, s] : world.state().runs.at(kDemo).jobs.supply)
    live += s.live() ? 1u : 0u;
  CHECK(live == 1);
  CHECK(audit_journal(world.journal));
}

TEST_CASE("engine: an order that could not be written -> its submission is not made") {
  sim::World world;
  REQUIRE(start(world));
  world.files.refuse("orders");
  REQUIRE(world.feed({kDemo, RunAdded{demo_policy(), "alice"}, {}}));
  CHECK(world.scheduler.jobs().empty());
  world.files.refuse("");
  REQUIRE(world.advance_to(Instant{} + 5min));
  CHECK(world.scheduler.jobs().size() == 1);
  CHECK(audit_journal(world.journal));
}

TEST_CASE("engine: a journal with another decision in it -> the audit names the row") {
  sim::World world;
  REQUIRE(start(world));
  REQUIRE(world.feed({kDemo, RunAdded{demo_policy(), "alice"}, {}}));
  std::string& text = world.journal.text_of(2);
  text.replace(text.find("alice"), 5, "malik");
  const Status audited = audit_journal(world.journal);
  REQUIRE_FALSE(audited);
  CHECK(audited.error().message().find("row 2") != std::string::npos);
}

TEST_CASE("engine: an older epoch starts -> refused before any effect") {
  sim::World world;
  REQUIRE(start(world, 3));
  world.kill();
  CHECK_FALSE(start(world, 2));
}

TEST_CASE("engine: a state written and read -> the same bytes") {
  sim::World world;
  REQUIRE(start(world));
  REQUIRE(world.feed({kDemo, RunAdded{demo_policy(), "alice"}, {}}));
  const std::string text = to_json_text(world.state());
  const auto again = from_json_text<SiteState>(text, "state");
  REQUIRE(again);
  CHECK(to_json_text(*again) == text);
}

TEST_CASE("step: an event of an unsupervised run -> rejected with its name") {
  const auto [state, decision] =
      step({}, Event{Instant{}, WallTime{}, RunName("ghost"), LeadSpeaks{Generation{1}}});
  CHECK(decision.rejected);
  CHECK(decision.reason.find("ghost") != std::string::npos);
}

TEST_CASE("engine: an intent read back from the journal -> the very action, its alert's kind too") {
  SendAlert alert;
  alert.id = "demo/hang/17";
  alert.alert_kind = "hang";
  alert.summary = "all 4 ranks made no progress";
  const Action action = alert;
  const auto back = from_json_text<Action>(to_json_text(action), "intent");
  REQUIRE(back);
  CHECK(*back == action);
}
