// A run leaves the list, or takes another name: when, what goes with it, and whose rows are whose.
#include "core/operators/forget.hpp"

#include <doctest/doctest.h>

#include "core/step.hpp"
#include "sim/transcript/script.hpp"

using namespace stoker;
using namespace stoker::core;

namespace {

const RunName kDemo("demo"), kOther("other"), kNew("new");

RunPolicy policy_of(const RunName& name) {
  RunPolicy policy;
  policy.run = name;
  policy.directory = "/runs/" + name.text;
  policy.config_path = "/home/alice/" + name.text + ".yaml";
  policy.train.command = {"stoker-train"};
  return policy;
}

OperatorAsked asked(const std::string& verb, const std::string& to = "") {
  OperatorAsked body;
  body.verb = verb;
  body.by = "alice";
  body.via = "socket";
  if (!to.empty()) body.arguments["to"] = to;
  return body;
}

// What was decided about this order.
Decision decide(sim::World& world, const RunName& run, const OperatorAsked& body) {
  REQUIRE(world.feed({run, body, {}}));
  Decision found;
  const auto rows = world.journal.rows_after(Sequence{}, 100000);
  REQUIRE(rows);
  for (const JournalRow& row : *rows)
    if (const auto* o = std::get_if<OperatorAsked>(&row.event.body); o != nullptr && *o == body)
      found = row.decision;
  return found;
}

// Two runs; demo was stopped while it was queued, and its job is proven over.
void two_runs(sim::World& world) {
  REQUIRE(world.start(DaemonStarted{"build", Epoch{1}, 0ns, true}));
  REQUIRE(world.feed({kDemo, RunAdded{policy_of(kDemo), "alice"}, {}}));
  REQUIRE(world.feed({kOther, RunAdded{policy_of(kOther), "alice"}, {}}));
}

void stop_demo(sim::World& world) {
  const auto& supply = world.state().runs.at(kDemo).jobs.supply;
  REQUIRE(supply.size() == 1);
  JobSeen end;
  end.token = supply.begin()->first;
  end.job = supply.begin()->second.job;
  end.state = JobState::Cancelled;
  end.cancelled_by_us = true;
  REQUIRE(world.feed({kDemo, asked("stop"), {}}));
  REQUIRE(world.feed({kDemo, end, {}}));
}

// A line of a transcript.
void live(sim::Script& script, const char* line) {
  sim::Words words(line);
  REQUIRE_MESSAGE(script.advance(words).has_value(), line);
  REQUIRE_MESSAGE(script.run(words).has_value(), line);
}

}  // namespace

TEST_CASE("forget: a run that is not over -> refused with its state and what to do") {
  sim::World world;
  two_runs(world);
  const Decision refused = decide(world, kDemo, asked("forget"));
  CHECK(refused.rejected);
  CHECK(refused.reason.find("demo is queued since") != std::string::npos);
  CHECK(refused.reason.find("`stoker stop demo`") != std::string::npos);
  CHECK(world.state().runs.contains(kDemo));
}

TEST_CASE("forget: stopped, but its job has not ended yet -> refused until it has") {
  sim::World world;
  two_runs(world);
  REQUIRE(world.feed({kDemo, asked("stop"), {}}));
  const auto& supply = world.state().runs.at(kDemo).jobs.supply;
  REQUIRE(supply.begin()->second.live());
  const Decision refused = decide(world, kDemo, asked("forget"));
  CHECK(refused.rejected);
  CHECK(refused.reason.find("has not ended yet") != std::string::npos);
}

TEST_CASE("forget: a stopped run -> gone with its alerts, the other stays, a replay agrees") {
  sim::World world;
  two_runs(world);
  stop_demo(world);
  REQUIRE(world.feed({kDemo, DiskLow{"/runs/demo", 0.01, true}, {}}));
  const std::size_t alerts = world.state().alerts.size();
  const Decision done = decide(world, kDemo, asked("forget"));
  CHECK_FALSE(done.rejected);
  CHECK(done.from == "stopped");
  CHECK(done.to == "stopped");
  CHECK(done.reason.find("its files stay in /runs/demo") != std::string::npos);
  CHECK(done.reason.find("stoker run /home/alice/demo.yaml") != std::string::npos);
  CHECK_FALSE(world.state().runs.contains(kDemo));
  CHECK(world.state().runs.contains(kOther));
  for (const auto& [id, alert] : world.state().alerts) CHECK(alert.run != kDemo);
  CHECK(world.state().alerts.size() <= alerts);
  for (const auto& [key, effect] : world.state().open) CHECK(effect.run != kDemo);
  CHECK(audit_journal(world.journal));
  REQUIRE(world.feed({kDemo, LeadSpeaks{Generation{1}}, {}}));  // a late word changes nothing
  CHECK_FALSE(world.state().runs.contains(kDemo));
  REQUIRE(world.feed({kDemo, RunAdded{policy_of(kDemo), "alice"}, {}}));
  CHECK(world.state().runs.contains(kDemo));
  CHECK(audit_journal(world.journal));
}

TEST_CASE("rename: a stopped run -> the same state under the new name, silences and alerts too") {
  sim::World world;
  two_runs(world);
  OperatorAsked silence = asked("silence");
  silence.arguments = {{"run", "demo"}, {"for", "2h"}};
  REQUIRE(world.feed({RunName{}, silence, {}}));
  CHECK(decide(world, kDemo, asked("rename", "new")).rejected);  // it is queued
  stop_demo(world);
  CHECK(decide(world, kDemo, asked("rename", "other")).reason.find("already") != std::string::npos);
  const OrderNumber order = world.state().runs.at(kDemo).asked.order;
  const Decision done = decide(world, kDemo, asked("rename", "new"));
  CHECK_FALSE(done.rejected);
  CHECK(done.reason.find("`directory: /runs/demo`") != std::string::npos);
  REQUIRE(world.state().runs.contains(kNew));
  CHECK_FALSE(world.state().runs.contains(kDemo));
  CHECK(world.state().runs.at(kNew).policy.run == kNew);
  CHECK(world.state().runs.at(kNew).asked.order == order);
  CHECK(world.state().silences.at(0).match.at("run") == "new");
  CHECK(audit_journal(world.journal));
  REQUIRE(world.feed({kNew, asked("resume"), {}}));
  CHECK(world.state().runs.at(kNew).asked.order.value == order.value + 1);
  CHECK(audit_journal(world.journal));
}

TEST_CASE(
    "rename: a run with followers -> refused while a job is there, then tried by the new name") {
  sim::Script script([](const JournalRow&) {});
  for (const char* line :
       {"policy after evaluate every 100", "at 0s until training iteration 80 checkpoint 80",
        "at 10s saved 100", "at 20s operator alice stop --now", "at 21s job 1_1 CANCELLED by us",
        "at 22s operator alice rename --to=new"})
    live(script, line);
  const auto run_of = [&](const RunName& name) {
    const auto& runs = script.world().state().runs;
    return runs.contains(name) ? runs.at(name) : RunState{};
  };
  const auto open_of = [&](const RunName& name) { return run_of(name).followers["evaluate"].open; };
  REQUIRE(open_of(kDemo).size() == 1);  // it was not renamed: job 2 is there
  REQUIRE(open_of(kDemo)[0].job);
  CHECK(open_of(kDemo)[0].job->job.job == 2);

  // Its try fails, and the next one is refused by the scheduler: there is no job any more.
  for (const char* line : {"at 30s follower ended 2 exit 3", "at 31s scheduler next submit refused",
                           "at 5m35s operator alice rename --to=new"})
    live(script, line);
  CHECK(open_of(kDemo).empty());
  REQUIRE(open_of(kNew).size() == 1);
  CHECK(open_of(kNew)[0].tries == 1);
  CHECK_FALSE(open_of(kNew)[0].job);  // its token had the old name
  live(script, "at 7m quiet");
  REQUIRE(open_of(kNew).size() == 1);
  REQUIRE(open_of(kNew)[0].job);
  CHECK(open_of(kNew)[0].job->token.text.starts_with("new+evaluate.100-2-"));
  CHECK(open_of(kNew)[0].job->job.job == 3);
  CHECK(script.audit());
}

TEST_CASE("current_name: renamed, forgotten, used again -> each row has the run of its time") {
  const std::vector<NameChange> changes{{Sequence(10), RunName("a"), RunName("b")},
                                        {Sequence(20), RunName("a"), RunName()},
                                        {Sequence(30), RunName("b"), RunName("c")},
                                        {Sequence(40), RunName("c"), RunName("a")}};
  const auto name = [&](const char* run, std::uint64_t seq) {
    return current_name(RunName(run), Sequence(seq), changes).text;
  };
  CHECK(name("a", 5) == "a");  // a, b, c, and a again
  CHECK(name("a", 10) == "a");
  CHECK(name("a", 15).empty());  // another a, forgotten at 20
  CHECK(name("b", 12) == "a");
  CHECK(name("a", 45) == "a");
  CHECK(name("d", 1) == "d");
  CHECK(current_name(RunName("a"), Sequence(1), {}).text == "a");
}

TEST_CASE("name_change_of: only a forget or a rename that was done") {
  JournalRow row;
  row.seq = Sequence(7);
  row.event.run = kDemo;
  row.event.body = asked("rename", "new");
  const auto renamed = name_change_of(row);
  REQUIRE(renamed);
  CHECK(renamed->to == kNew);
  row.event.body = asked("forget");
  CHECK(name_change_of(row)->to.empty());
  row.decision.rejected = true;
  CHECK_FALSE(name_change_of(row));
  row.decision.rejected = false;
  row.event.body = asked("stop");
  CHECK_FALSE(name_change_of(row));
}
