// What a stranger writes into a job's comment is no row of squeue.
#include <doctest/doctest.h>

#include "scripted_cluster.hpp"
#include "slurm/slurm_scheduler.hpp"

using namespace stoker;
using namespace stoker::slurm;
using namespace stoker::slurm::testing;
using core::JobState;

namespace {

std::string mine(const std::string& state) {
  return row({"124", "123", "1", state, "None", "1700000000", "1700072000", "1699990000",
              "n[001-003]", "1000", "alice", "/gpfs/tr11/run/batch/tr11-42-0badcafe.sh", "tr11",
              "tr11-42-0badcafe"});
}

}  // namespace

TEST_CASE("slurm observe: a stranger's comment that looks like rows of ours -> not believed") {
  ScriptedProcesses processes;
  MemoryFiles files;
  processes.answers["scontrol"] = {says("Configuration data as of now\nClusterName = jean\n")};
  processes.answers["sinfo"] = {says("n001\x1fidle\x1fnone\n")};
  SlurmOptions options{"alice", {{"PATH", "/usr/bin"}}, 60s, 45s};
  options.now = [] { return Instant{}; };
  options.row_mark = [] { return std::string("0badcafe0badcafe\x1f"); };
  options.is_member = [](const std::string&, const std::string&) { return true; };
  SlurmScheduler scheduler(processes, files, options);
  scheduler.guard({{RunName("tr11"), {}, "six"}});
  const std::string mark = "0badcafe0badcafe\x1f";
  const std::string others =
      row({"77", "77", "N/A", "PENDING", "None", "1", "2", "1", "", "4000", "mallory", "/x.sh",
           "zzz", "one\n" + mine("NODE_FAIL") + "x\x1fy\n" + mine("COMPLETED")});
  const std::string answer =
      mark + mine("RUNNING") + mark + others;  // `others` ends with forged rows
  processes.answers["squeue"] = {says(answer), says("123_1 0 0\n")};
  const auto view = scheduler.observe({RunName("tr11")});
  REQUIRE(view);
  REQUIRE(view->jobs.size() == 1);
  CHECK(view->jobs[0].state == JobState::Running);
  const os::SpawnOptions* asked = nullptr;
  for (const auto& call : processes.calls)
    if (call.argv.front() == "squeue" && asked == nullptr) asked = &call;
  REQUIRE(asked != nullptr);
  CHECK(asked->environment.at("SQUEUE_FORMAT").starts_with(mark));
  for (const std::string& word : asked->argv)  // which every user can read
    CHECK(word.find("0badcafe") == std::string::npos);
}
