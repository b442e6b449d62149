// The Scheduler port over scripted commands: never twice, never somebody else's job, never dead
// because unseen.
#include "slurm/slurm_scheduler.hpp"

#include <doctest/doctest.h>

#include "scripted_cluster.hpp"

using namespace stoker;
using namespace stoker::slurm;
using namespace stoker::slurm::testing;
using core::Certainty;
using core::JobState;

namespace {

struct Fixture {
  ScriptedProcesses processes;
  MemoryFiles files;
  SlurmScheduler scheduler{processes, files, {"alice", {{"PATH", "/usr/bin"}}, 60s}};
  const Token token{"tr11-42-0badcafe"};

  Fixture() { processes.answers["squeue"] = {says("")}; }
  static std::string mine(const std::string& state, const std::string& task = "1",
                          const std::string& comment = "tr11-42-0badcafe") {
    return row({"124", "123", task, state, "None", "1700000000", "1700072000", "1699990000",
                state == "PENDING" ? "" : "n[001-003]", "1000", "tr11", comment});
  }
  Certainty certainty(const core::PortResult<JobId>& result) {
    return std::get<core::PortError>(result).certainty;
  }
};

const char* const kDetail =
    "JobId=124 ArrayJobId=123 ArrayTaskId=1 JobName=tr11 Restarts=3 JobState=FAILED ExitCode=3:9 "
    "Command=/gpfs/tr11/run/batch/tr11-42-0badcafe.sh\n";

}  // namespace

TEST_CASE("slurm submit: fresh token -> script written, sbatch called with it, id") {
  Fixture f;
  f.processes.answers["sbatch"] = {says("123\n")};
  CHECK(std::get<JobId>(f.scheduler.submit(example_request())) == JobId{123, 0});
  const auto& call = f.processes.calls.back();
  CHECK(call.argv == std::vector<std::string>{"sbatch", "--parsable",
                                              "/gpfs/tr11/run/batch/tr11-42-0badcafe.sh"});
  CHECK(f.files.content.at(call.argv.back()).find("--array=1-10%1") != std::string::npos);
}

TEST_CASE("slurm submit: token already in the queue -> its id, no second sbatch") {
  Fixture f;
  f.processes.answers["squeue"] = {says(Fixture::mine("PENDING"))};
  CHECK(std::get<JobId>(f.scheduler.submit(example_request())) == JobId{123, 0});
  CHECK(f.processes.count("sbatch") == 0);
}

TEST_CASE("slurm submit: comment rewritten by the site -> found by the script's path") {
  Fixture f;
  f.processes.answers["squeue"] = {says(Fixture::mine("PENDING", "1", "charged: six"))};
  f.processes.answers["scontrol"] = {says(kDetail)};
  CHECK(std::get<JobId>(f.scheduler.submit(example_request())) == JobId{123, 0});
  CHECK(f.processes.count("sbatch") == 0);
}

TEST_CASE("slurm submit: queue not visible -> Definite, nothing submitted") {
  Fixture f;
  f.processes.answers["squeue"] = {says("", "slurm_load_jobs error: Unable to contact\n", 1)};
  CHECK(f.certainty(f.scheduler.submit(example_request())) == Certainty::Definite);
  CHECK(f.processes.count("sbatch") == 0);
}

TEST_CASE("slurm submit: sbatch times out -> Unknown; not installed -> Definite") {
  Fixture f;
  CHECK(f.certainty(f.scheduler.submit(example_request())) == Certainty::Definite);
  f.processes.answers["sbatch"] = {fail("timed out after 60s", "sbatch")};
  CHECK(f.certainty(f.scheduler.submit(example_request())) == Certainty::Unknown);
}

TEST_CASE("slurm observe: running and failed tasks -> as SLURM says, details asked once") {
  Fixture f;
  f.processes.answers["squeue"] = {says(Fixture::mine("FAILED") + Fixture::mine("PENDING", "2"))};
  f.processes.answers["scontrol"] = {says(kDetail)};
  const auto view = f.scheduler.observe({RunName("tr11")});
  REQUIRE(view);
  REQUIRE(view->jobs.size() == 2);
  CHECK(view->jobs[0].job == JobId{123, 1});
  CHECK(view->jobs[0].token == f.token);
  CHECK(view->jobs[0].state == JobState::Failed);
  CHECK(view->jobs[0].exit_code == 3);
  CHECK(view->jobs[0].signal == 9);
  CHECK(view->jobs[0].restart == 3);
  CHECK(view->jobs[1].state == JobState::Pending);
  CHECK(f.processes.count("scontrol") == 1);
  REQUIRE(f.scheduler.observe({RunName("tr11")}));
  CHECK(f.processes.count("scontrol") == 1);
  CHECK(f.processes.count("squeue") == 2);
}

TEST_CASE("slurm observe: failed, slow, torn or foreign answers -> errors, never an empty view") {
  Fixture f;
  const std::string good = Fixture::mine("RUNNING");
  for (const auto& answer :
       {says("", "error: Socket timed out\n", 1), says(good.substr(0, 40)), says("Bienvenue\n"),
        Result<os::CommandOutput>(fail("timed out after 60s", "squeue"))}) {
    f.processes.answers["squeue"] = {answer};
    CHECK(!f.scheduler.observe({RunName("tr11")}));
  }
}

TEST_CASE("slurm cancel: id with our token -> scancel of the task, or of what is pending") {
  Fixture f;
  f.processes.answers["squeue"] = {says(Fixture::mine("PENDING"))};
  f.processes.answers["scancel"] = {says("")};
  CHECK(std::holds_alternative<std::monostate>(
      f.scheduler.cancel({f.token, {123, 1}, false, false})));
  CHECK(f.processes.calls.back().argv == std::vector<std::string>{"scancel", "123_1"});
  (void)f.scheduler.cancel({f.token, {123, 1}, true, true});
  CHECK(f.processes.calls.back().argv ==
        std::vector<std::string>{"scancel", "--state=PENDING", "123"});
  f.processes.answers["squeue"] = {says(Fixture::mine("CANCELLED"))};
  f.processes.answers["scontrol"] = {says(kDetail)};
  CHECK(f.scheduler.observe({RunName("tr11")})->jobs.at(0).cancelled_by_us);
}

TEST_CASE("slurm cancel: id given away to another token, or gone -> success, nothing cancelled") {
  Fixture f;
  f.processes.answers["scancel"] = {says("")};
  f.processes.answers["squeue"] = {says(Fixture::mine("PENDING", "1", "tr11-43-ffffffff"))};
  CHECK(
      std::holds_alternative<std::monostate>(f.scheduler.cancel({f.token, {123, 1}, true, false})));
  f.processes.answers["squeue"] = {
      says("", "slurm_load_jobs error: Invalid job id specified\n", 1)};
  CHECK(
      std::holds_alternative<std::monostate>(f.scheduler.cancel({f.token, {123, 1}, true, false})));
  CHECK(f.processes.count("scancel") == 0);
}

TEST_CASE(
    "slurm exclusions: exit 1 but the pending tasks changed -> success; not changed -> error") {
  Fixture f;
  f.processes.answers["squeue"] = {says(Fixture::mine("PENDING"))};
  const std::string records =
      "JobId=124 ArrayJobId=123 ArrayTaskId=1 JobName=tr11 JobState=RUNNING ExcNodeList=(null)\n"
      "JobId=123 ArrayJobId=123 ArrayTaskId=2-10%1 JobName=tr11 JobState=PENDING ExcNodeList=";
  f.processes.answers["scontrol"] = {says("", "123_1: Job is no longer pending execution\n", 1),
                                     says(records + "n[01-02]\n")};
  const core::SetExclusions change{f.token, {123, 0}, {NodeName("n02"), NodeName("n01")}};
  CHECK(std::holds_alternative<std::monostate>(f.scheduler.set_exclusions(change)));
  f.processes.answers["scontrol"] = {says(""), says(records + "n07\n")};
  CHECK(std::holds_alternative<core::PortError>(f.scheduler.set_exclusions(change)));
}
