// Whose job a token in SLURM's answers belongs to, before a submission.
#include <doctest/doctest.h>

#include "scripted_scheduler.hpp"
#include "slurm/token_search.hpp"

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

TEST_CASE("slurm submit: of a job of ours squeue shows only others' jobs -> nothing submitted") {
  ScriptedScheduler f;
  f.processes.answers["squeue"] = {says(row({"7001", "7001", "N/A", "RUNNING", "None", "1", "2",
                                             "1", "x1", "7", "other", "/x.sh", "other", ""}))};
  f.processes.answers["scontrol"] = {
      says("JobId=777 JobName=tr11 JobState=PENDING Comment=tr11-42-0badcafe\n")};
  const auto found = f.scheduler.look_up(f.token);
  REQUIRE(std::holds_alternative<core::PortError>(found));
  CHECK(std::get<core::PortError>(found).error.what.find("squeue does not show") !=
        std::string::npos);
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

TEST_CASE("slurm submit: a stranger forges the token beside thousands of ids -> few questions") {
  ScriptedScheduler f;
  std::string forged = "JobId=777 JobName=x UserId=mallory(4711) JobState=PENDING Comment=x\n";
  for (int i = 0; i < 20000; ++i)
    forged += "JobId=" + std::to_string(90000000 + i) + " tr11-42-0badcafe\n";
  f.processes.answers["scontrol"] = {
      says(forged), says("", "slurm_load_jobs error: Invalid job id specified\n", 1)};
  CHECK(std::get<std::optional<JobId>>(f.scheduler.look_up(f.token)) == std::nullopt);
  CHECK(f.processes.calls.size() < 12);
}

TEST_CASE("slurm submit: a forged id is a stranger's array that is too long -> not ours") {
  ScriptedScheduler f;
  os::CommandOutput cut;
  cut.truncated = true;
  const std::string forged = "JobId=777 JobName=tr11 JobState=PENDING Comment=tr11-42-0badcafe\n";
  f.processes.answers["squeue"] = {says(""), says(""), cut};
  f.processes.answers["scontrol"] = {says(forged)};
  CHECK(std::get<std::optional<JobId>>(f.scheduler.look_up(f.token)) == std::nullopt);
}

TEST_CASE("scontrol: a token in an answer that comes in pieces -> found, with its array's id") {
  const std::string text =
      "JobId=5 JobName=a\nb UserId=x(1) Command=/x.sh " + std::string(200000, 'x') +
      "\nJobId=124 ArrayJobId=123 ArrayTaskId=1 JobName=tr11 Command=/r/batch/" +
      std::string(300, 'y') + "tr11-42-0badcafe.sh Comment=c\nJobId=125 JobName=c\n";
  for (const std::size_t piece : {1, 7, 15, 16, 17, 4096, 1000000}) {
    TokenSearch search(Token("tr11-42-0badcafe"));
    for (std::size_t at = 0; at < text.size(); at += piece) search.feed(text.substr(at, piece));
    search.finish();
    CHECK(search.found());
    CHECK(search.jobs() == std::set<std::uint64_t>{123});
  }
  TokenSearch none(Token("tr11-42-0badcaff"));
  none.feed(text);
  none.finish();
  CHECK(none.any_job());
  CHECK_FALSE(none.found());
}

TEST_CASE("slurm cancel: a submission without an id -> looked for by its token alone") {
  ScriptedScheduler f;
  const auto row_of = [](const std::string& name, const std::string& token) {
    return row({"124", "123", "1", "PENDING", "None", "1700000000", "1700072000", "1699990000", "",
                "1000", "alice", "/x.sh", name, token});
  };
  f.processes.answers["scancel"] = {says("")};
  f.processes.answers["squeue"] = {says(row_of("tr11", "tr11-42-0badcafe"))};
  const auto done = f.scheduler.cancel({f.token, {0, 0}, true, false});
  CHECK(std::holds_alternative<std::monostate>(done));
  CHECK(f.processes.calls.back().argv == std::vector<std::string>{"scancel", "123"});
  // It never came to be, and jobs of others have records that cannot be read.
  f.processes.answers["squeue"] = {says(row_of("other", "other-1-11111111"))};
  f.processes.answers["scontrol"] = {says("JobId=777 JobName=x\nJobId=1 \nJobId=2 y\n")};
  const auto none = f.scheduler.cancel({f.token, {0, 0}, true, false});
  CHECK(std::holds_alternative<std::monostate>(none));
  CHECK(f.processes.count("scancel") == 1);
  for (const auto& call : f.processes.calls)
    CHECK(call.argv.back() != "0");  // which stands for every job
}
