// A job that squeue leaves out (a hidden partition, a variable of the environment) and scontrol
// shows.
#include <doctest/doctest.h>

#include "scripted_scheduler.hpp"

using namespace stoker;
using namespace stoker::slurm;
using namespace stoker::slurm::testing;
using core::JobState;

namespace {

std::string record(const std::string& state, const std::string& nodes = "n[01-02]") {
  return "JobId=124 ArrayJobId=123 ArrayTaskId=2 JobName=tr11 UserId=alice(1000) JobState=" +
         state + " Restarts=0 ExitCode=0:0 EndTime=1700072000 NodeList=" + nodes +
         " Command=/gpfs/tr11/run/batch/tr11-42-0badcafe.sh Comment=tr11-42-0badcafe\n";
}

// What is seen of the expected job 123 while squeue's answer is empty and scontrol says this.
std::vector<core::JobSeen> seen(const std::string& shown) {
  ScriptedScheduler f;
  REQUIRE(f.scheduler.observe({RunName("tr11")}));
  f.scheduler.expect({{f.token, {123, 0}}});
  f.processes.answers["scontrol"] = {says(shown)};
  const auto view = f.scheduler.observe({RunName("tr11")});
  REQUIRE(view);
  CHECK(view->gone.empty());
  return view->jobs;
}

}  // namespace

TEST_CASE("hidden job: squeue leaves it out, scontrol shows it suspended or running -> seen so") {
  const auto suspended = seen(record("SUSPENDED"));
  REQUIRE(suspended.size() == 1);
  CHECK(suspended[0].job == JobId{123, 2});
  CHECK(suspended[0].state == JobState::Suspended);
  CHECK(suspended[0].token.text == "tr11-42-0badcafe");
  CHECK(suspended[0].nodes.size() == 2);
  const auto running = seen(record("RUNNING"));
  REQUIRE(running.size() == 1);
  CHECK(running[0].state == JobState::Running);
  CHECK(running[0].ends_at == WallTime(1700072000s));
}

TEST_CASE(
    "hidden job: squeue answers from the past -> a probe sees the suspension, then each look") {
  ScriptedScheduler f;
  const std::string running = row(
      {"124", "123", "2", "RUNNING", "None", "1700000000", "1700072000", "1699990000", "n[01-02]",
       "1000", "alice", "/gpfs/tr11/run/batch/tr11-42-0badcafe.sh", "tr11", "tr11-42-0badcafe"});
  const auto state = [&f, &running](const std::string& shown) {
    f.processes.answers["squeue"] = {says(running), says("123_2 0 0\n")};
    f.processes.answers["scontrol"] = {says(shown)};
    return f.scheduler.observe({RunName("tr11")})->jobs.at(0).state;
  };
  f.processes.answers["squeue"] = {says(running), says("123_2 0 0\n")};
  REQUIRE(f.scheduler.observe({RunName("tr11")}));
  core::ProbeRequest request;
  request.probe.token = f.token;
  request.probe.job = {123, 2};
  f.processes.answers["squeue"] = {says(running)};
  f.processes.answers["scontrol"] = {says(record("SUSPENDED"))};
  const auto probed = f.scheduler.probe(request);
  CHECK(probed.steps.empty());
  CHECK(probed.why == "scontrol shows it suspended");
  CHECK(state(record("SUSPENDED")) == JobState::Suspended);
  CHECK(state(record("RUNNING")) == JobState::Running);
  CHECK(state(record("SUSPENDED")) == JobState::Running);  // until the next probe
}

TEST_CASE("hidden job: scontrol shows it waiting, over, or without nodes -> nothing is concluded") {
  for (const auto& shown : {record("PENDING", "(null)"), record("COMPLETED"), record("FAILED"),
                            record("RUNNING", "(null)"), record("RUNNING", "n[01")})
    CHECK_MESSAGE(seen(shown).empty(), shown);
}
