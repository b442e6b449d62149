// Whose job a token in SLURM's answers belongs to, before a submission.
#include <doctest/doctest.h>

#include "scripted_scheduler.hpp"

using namespace stoker;
using namespace stoker::slurm;
using namespace stoker::slurm::testing;

TEST_CASE("slurm submit: a job of ours that squeue hides -> nothing submitted, and why") {
  ScriptedScheduler f;
  f.processes.answers["scontrol"] = {says(
      "JobId=123 JobName=tr11 UserId=alice(1000) JobState=PENDING Comment=tr11-42-0badcafe\n")};
  const auto answer = f.scheduler.submit(example_request());
  REQUIRE(std::holds_alternative<core::PortError>(answer));
  CHECK(std::get<core::PortError>(answer).error.message().find("scontrol shows") !=
        std::string::npos);
  CHECK(f.processes.count("sbatch") == 0);
}

TEST_CASE("slurm submit: a stranger's job carries the token, and forges a record -> submitted") {
  ScriptedScheduler f;
  std::string rows =
      row({"777", "777", "N/A", "PENDING", "None", "1700000000", "1700072000", "1699990000", "",
           "4711", "mallory", "/home/mallory/x.sh", "x", "tr11-42-0badcafe"});
  rows += row({"124", "123", "1", "PENDING", "None", "1700000000", "1700072000", "1699990000", "",
               "1000", "alice", "/gpfs/other/run/batch/other-1-11111111.sh", "other",
               "other-1-11111111"});
  f.processes.answers["squeue"] = {says(rows)};
  const std::string ours =
      "JobId=124 JobName=other UserId=alice(1000) JobState=PENDING Comment=other-1-11111111\n";
  // A name and a comment may hold anything: what looks like our user, and like records.
  f.processes.answers["scontrol"] = {
      says("JobId=777 JobName=x UserId=alice(1000) UserId=mallory(4711) JobState=PENDING "
           "Comment=tr11-42-0badcafe\nJobId=124 JobName=tr11 UserId=alice(1000) "
           "JobState=PENDING Comment=tr11-42-0badcafe\ntr11-42-0badcafe\n" +
           ours),
      says(ours)};
  f.processes.answers["sbatch"] = {says("125\n")};
  const auto answer = f.scheduler.submit(example_request());
  REQUIRE(std::holds_alternative<JobId>(answer));
  CHECK(std::get<JobId>(answer) == JobId{125, 0});
  CHECK(std::get<std::optional<JobId>>(f.scheduler.look_up(f.token)) == std::nullopt);
}
