// What wrappers of SLURM got wrong, one test a row of the list in the design (each row names issues
// of real projects); here the same fault meets our port.
#include <doctest/doctest.h>
#include <set>

#include "scripted_cluster.hpp"
#include "slurm/client_call.hpp"
#include "slurm/job_state.hpp"
#include "slurm/slurm_scheduler.hpp"

using namespace stoker;
using namespace stoker::slurm;
using namespace stoker::slurm::testing;
using core::Certainty;
using core::JobState;

namespace {

const char* const kToken = "tr11-42-0badcafe";

struct Site {
  Instant now{};
  ScriptedProcesses processes;
  MemoryFiles files;
  SlurmScheduler scheduler{
      processes, files, {"alice", {{"PATH", "/usr/bin"}}, 60s, 45s, [this] { return now; }}};
  Site() {
    processes.answers["squeue"] = {says("")};
    processes.answers["scontrol"] = {says("Configuration\nClusterName             = jean\n")};
    processes.answers["sinfo"] = {says("n01\x1fidle\x1fnone\n")};
  }
  static std::string job(const std::string& id, const std::string& state,
                         const std::string& token = kToken, const std::string& task = "1") {
    return row({id, id, task, state, "None", "1700000000", "1700072000", "1699990000", "n01",
                "1000", "alice", "/gpfs/batch/" + token + ".sh", "tr11", token});
  }
  // One pass over these rows; `numbers` answers squeue -O.
  core::SchedulerView look(const std::string& rows, const std::string& numbers = "") {
    processes.answers["squeue"] = {says(rows), says(numbers), says(rows)};
    auto view = scheduler.observe({RunName("tr11")});
    REQUIRE(view);
    now += 61s;
    return std::move(*view);
  }
};

}  // namespace

TEST_CASE("wrappers: squeue or sacct error -> job treated done or dead") {
  Site site;
  REQUIRE(site.look(Site::job("123", "RUNNING"), "123_1 0 0\n").jobs.size() == 1);
  for (const auto& answer : {says("", "slurm_load_jobs error: Socket timed out\n", 1),
                             says("", "error: Unable to contact slurm controller\n", 1),
                             Result<os::CommandOutput>(fail("timed out after 60s", "squeue"))}) {
    site.processes.answers["squeue"] = {answer};
    CHECK(!site.scheduler.observe({RunName("tr11")}));
  }
  site.scheduler.expect({{Token(kToken), {123, 0}}});
  site.processes.answers["scontrol"] = {says("", "error: Unable to contact\n", 1)};
  CHECK(site.look("").gone.empty());  // a good answer without it proves nothing either
}

TEST_CASE("wrappers: never recovers after an outage") {
  Site site;
  for (int i = 0; i < 50; ++i) {
    site.processes.answers["squeue"] = {says("", "error: Unable to contact\n", 1)};
    CHECK(!site.scheduler.observe({RunName("tr11")}));
  }
  CHECK(site.look(Site::job("123", "RUNNING"), "123_1 0 0\n").jobs.size() == 1);
}

TEST_CASE("wrappers: NODE_FAIL with automatic requeue counted as failure or twice") {
  Site site;
  const auto first = site.look(Site::job("123", "RUNNING"), "123_1 0 0\n");
  const auto second = site.look(Site::job("123", "REQUEUED"), "123_1 1 0\n");
  const auto third = site.look(Site::job("123", "RUNNING"), "123_1 1 0\n");
  REQUIRE(second.jobs.size() == 1);
  CHECK(first.jobs[0].restart == 0);
  CHECK(!core::is_terminal(second.jobs[0].state));
  CHECK(third.jobs[0].restart == 1);
  CHECK(third.jobs[0].job == first.jobs[0].job);
}

TEST_CASE("slurm observe: requeued and seen first as PENDING -> its restart count is asked for") {
  Site site;
  CHECK(site.look(Site::job("123", "PENDING")).jobs.at(0).restart == 0);
  CHECK(site.processes.count("squeue") == 1);  // a job that never ran has no restarts
  CHECK(site.look(Site::job("123", "RUNNING"), "123_1 0 0\n").jobs.at(0).restart == 0);
  CHECK(site.look(Site::job("123", "PENDING"), "123_1 1 0\n").jobs.at(0).restart == 1);
}

TEST_CASE("wrappers: partition or queue filter hides a moved job") {
  const auto argv = queue_command("alice");
  CHECK(std::find(argv.begin(), argv.end(), "-a") != argv.end());
  CHECK(std::find(argv.begin(), argv.end(), "-p") == argv.end());
  const auto clean = clean_environment({{"SQUEUE_PARTITION", "old"},
                                        {"SQUEUE_NAMES", "x"},
                                        {"SQUEUE_ACCOUNT", "x"},
                                        {"SQUEUE_STATES", "PD"},
                                        {"SLURM_CLUSTERS", "other"},
                                        {"SLURM_CONF", "/etc/slurm.conf"}});
  CHECK(clean == std::map<std::string, std::string>{{"LC_ALL", "C"},
                                                    {"SLURM_CONF", "/etc/slurm.conf"},
                                                    {"SLURM_TIME_FORMAT", "%s"}});
}

TEST_CASE("wrappers: array id parsing") {
  CHECK(!parse_queue(Site::job("57829110", "PENDING", kToken, "5-100")));
  CHECK(!parse_queue(Site::job("57829110", "PENDING", kToken, "60-89,91-94%500")));
  CHECK(!parse_numbers("57829110_[5-100]   0   0\n"));
  CHECK(parse_queue(Site::job("57829110", "PENDING", kToken, "4294967"))->at(0).id.task == 4294967);
}

TEST_CASE("wrappers: old id or wrapped id belongs to somebody else") {
  Site site;
  (void)site.look("");
  site.scheduler.expect({{Token(kToken), {123, 0}}});
  const std::string stranger =
      row({"123", "123", "N/A", "COMPLETED", "None", "1500000000", "1500072000", "1499990000",
           "n01", "1001", "bob", "(null)", "tr11", "charged: six"});
  site.processes.answers["scontrol"] = {
      says("JobId=123 JobName=tr11 JobState=COMPLETED Comment=six\n")};
  const auto view = site.look(stranger, "123 0 0\n");
  CHECK(view.jobs.empty());
  REQUIRE(view.gone.size() == 1);  // ours is gone, not completed
  site.processes.answers["squeue"] = {says(stranger)};
  site.processes.answers["scancel"] = {says("")};
  (void)site.scheduler.cancel({Token(kToken), {123, 1}, true, false});
  CHECK(site.processes.count("scancel") == 0);
}

TEST_CASE("wrappers: state stuck at PENDING while the job runs") {
  Site site;
  CHECK(site.look(Site::job("123", "PENDING")).jobs[0].state == JobState::Pending);
  CHECK(site.look(Site::job("123", "RUNNING"), "123_1 0 0\n").jobs[0].state == JobState::Running);
  CHECK(site.look(Site::job("123", "FAILED"), "123_1 0 256\n").jobs[0].exit_code == 1);
}

TEST_CASE("wrappers: time-out and pre-emption guessed from the clock") {
  for (const auto& [word, state] :
       {std::pair("TIMEOUT", JobState::Timeout), std::pair("PREEMPTED", JobState::Preempted),
        std::pair("DEADLINE", JobState::Deadline), std::pair("BOOT_FAIL", JobState::BootFail),
        std::pair("OUT_OF_MEMORY", JobState::OutOfMemory)}) {
    Site site;  // the same times each time: only the argument differs
    CHECK(site.look(Site::job("123", word), "123_1 0 0\n").jobs[0].state == state);
  }
}

TEST_CASE("wrappers: RPC storm") {
  Site site;
  std::vector<RunName> runs;
  for (int i = 0; i < 50; ++i) runs.emplace_back("run" + std::to_string(i));
  const Instant end = site.now + 1h;
  for (int pass = 0; site.now < end; ++pass) {
    std::string rows, numbers;
    for (int i = 0; i < 50; ++i) {  // a storm: all fifty change their state at each look
      const std::string name = "run" + std::to_string(i), id = std::to_string(1000 + i);
      rows += row({id, id, "1", pass % 2 == 0 ? "RUNNING" : "NODE_FAIL", "None", "1", "2", "1",
                   "n01", "1000", "alice", "(null)", name, name + "-1-00000000"});
      numbers += id + "_1 0 0\n";
    }
    site.processes.answers["squeue"] = {says(rows), says(numbers), says(rows)};
    REQUIRE(site.scheduler.observe(runs));
    site.now += std::max<Duration>(15s, site.scheduler.rest());
  }
  CHECK(site.processes.calls.size() <= 120);
  CHECK(site.processes.calls.size() >= 60);  // and it does look
}

TEST_CASE("wrappers: RPC storm, when fifty jobs are missing at once and there are accounts") {
  Site site;
  site.processes.answers["scontrol"] = {
      says("x\nAccountingStorageType = accounting_storage/slurmdbd\nClusterName = jean\n"),
      says("", "slurm_load_jobs error: Invalid job id specified\n", 1)};
  site.processes.answers["sacct"] = {says("")};
  std::vector<RunName> runs;
  std::vector<core::JobExpected> expected;
  for (std::uint64_t i = 0; i < 50; ++i) {
    runs.emplace_back("run" + std::to_string(i));
    expected.push_back({Token(runs.back().text + "-1-00000000"), {100 + i, 0}, WallTime(1s)});
  }
  const Instant end = site.now + 1h;
  std::set<std::string> asked_for;
  while (site.now < end) {
    site.processes.answers["squeue"] = {says("")};
    site.scheduler.expect(expected);
    REQUIRE(site.scheduler.observe(runs));
    site.now += std::max<Duration>(15s, site.scheduler.rest());
  }
  for (const auto& call : site.processes.calls)
    if (call.argv.front() == "sacct") asked_for.insert(call.argv.at(9));
  CHECK(site.processes.calls.size() <= 122);  // the last pass may overdraw
  CHECK(asked_for.size() >= 25);              // and each gets its turn
}

TEST_CASE("wrappers: duplicate submit") {
  Site site;
  site.processes.answers["sbatch"] = {fail("timed out after 60s", "sbatch")};
  const auto lost = site.scheduler.submit(example_request());
  CHECK(std::get<core::PortError>(lost).certainty == Certainty::Unknown);
  site.processes.answers["squeue"] = {says(Site::job("123", "PENDING"))};  // it had arrived
  CHECK(std::get<JobId>(site.scheduler.submit(example_request())) == JobId{123, 0});
  CHECK(site.processes.count("sbatch") == 1);
}

TEST_CASE("wrappers: running endlessly after the job is gone, ended while it runs") {
  Site site;
  REQUIRE(site.look(Site::job("123", "RUNNING"), "123_1 0 0\n").jobs.size() == 1);
  site.scheduler.expect({{Token(kToken), {123, 0}}});
  const auto denied = says("", "slurm_load_jobs error: Invalid job id specified\n", 1);
  site.processes.answers["scontrol"] = {denied};
  CHECK(site.look("").gone.empty());
  site.processes.answers["scontrol"] = {denied,
                                        says("Configuration\nClusterName             = jean\n")};
  CHECK(site.look("").gone.size() == 1);
  CHECK(site.look(Site::job("123", "RUNNING"), "123_1 0 0\n").gone.empty());  // it is back
}
