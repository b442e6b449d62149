// Arrays of which waiting tasks were cancelled: what squeue shows then, and what it does not.
#include <doctest/doctest.h>

#include "scripted_scheduler.hpp"

using namespace stoker;
using namespace stoker::slurm;
using namespace stoker::slurm::testing;
using core::JobState;

namespace {

std::string mine(const std::string& state, const std::string& task = "1") {
  return row({"124", "123", task, state, "None", "1700000000", "1700072000", "1699990000",
              state == "PENDING" ? "" : "n[001-003]", "1000", "alice",
              "/gpfs/tr11/run/batch/tr11-42-0badcafe.sh", "tr11", "tr11-42-0badcafe"});
}

}  // namespace

// What Debian's 22.05.8 shows after `scancel --state=PENDING 123` while 123_1 runs.
TEST_CASE("slurm observe: what is left of an array -> its rest is over, its task runs on") {
  ScriptedScheduler f;
  const std::string left =
      row({"123", "123", "N/A", "CANCELLED", "JobArrayTaskLimit", "1700000100", "1700000100",
           "1699990000", "", "1000", "alice", "/gpfs/tr11/run/batch/tr11-42-0badcafe.sh", "tr11",
           "tr11-42-0badcafe"});
  f.processes.answers["squeue"] = {says(left + mine("RUNNING")), says("123 0 0\n123_1 0 0\n"),
                                   says(left + mine("RUNNING"))};
  for (int look = 0; look < 2; ++look) {
    const auto view = f.scheduler.observe({RunName("tr11")});
    REQUIRE(view);
    REQUIRE(view->jobs.size() == 2);
    CHECK(view->jobs[0].job == JobId{123, 1});
    CHECK(view->jobs[0].state == JobState::Running);
    CHECK(view->jobs[1].job == JobId{123, 0});
    CHECK(view->jobs[1].state == JobState::Cancelled);
    CHECK(!view->jobs[1].cancelled_by_us);
  }
}

TEST_CASE("slurm cancel: of waiting tasks -> the rest was cancelled by us, the running one not") {
  ScriptedScheduler f;
  f.processes.answers["squeue"] = {
      says(mine("RUNNING") + mine("PENDING", "2")),
      says(mine("CANCELLED") + row({"123", "123", "N/A", "CANCELLED", "None", "1", "1", "1", "",
                                    "1000", "alice", "(null)", "tr11", "tr11-42-0badcafe"})),
      says("123 0 0\n123_1 0 15\n")};
  f.processes.answers["scancel"] = {says("")};
  REQUIRE(std::holds_alternative<std::monostate>(
      f.scheduler.cancel(core::Cancel{f.token, JobId{123, 0}, true, true})));
  const auto view = f.scheduler.observe({RunName("tr11")});
  REQUIRE(view);
  REQUIRE(view->jobs.size() == 2);
  CHECK(view->jobs[0].job == JobId{123, 1});
  CHECK(!view->jobs[0].cancelled_by_us);
  CHECK(view->jobs[1].job == JobId{123, 0});
  CHECK(view->jobs[1].cancelled_by_us);
}

// A waiting task that was cancelled alone leaves no row at all.
TEST_CASE("slurm observe: only ended tasks of an array, twice -> no task of it waits") {
  ScriptedScheduler f;
  f.processes.answers["squeue"] = {says(mine("COMPLETED")), says("123_1 0 0\n"),
                                   says(mine("COMPLETED"))};
  const auto first = f.scheduler.observe({RunName("tr11")});
  REQUIRE(first);
  CHECK(first->jobs.size() == 1);
  const auto second = f.scheduler.observe({RunName("tr11")});
  REQUIRE(second);
  REQUIRE(second->jobs.size() == 2);
  CHECK(second->jobs[1].job == JobId{123, 0});
  CHECK(second->jobs[1].state == JobState::Cancelled);
  f.processes.answers["squeue"] = {says(mine("COMPLETED") + mine("PENDING", "2"))};
  const auto third = f.scheduler.observe({RunName("tr11")});
  REQUIRE(third);
  for (const core::JobSeen& job : third->jobs) CHECK(job.job.task != 0);
}
