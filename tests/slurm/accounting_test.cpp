// sacct: what it proves and, more often, what it does not.
#include "slurm/accounting.hpp"

#include <doctest/doctest.h>

#include "scripted_cluster.hpp"
#include "slurm/slurm_scheduler.hpp"

using namespace stoker;
using namespace stoker::slurm;
using namespace stoker::slurm::testing;
using core::JobState;

namespace {

const Token kToken{"tr11-42-0badcafe"};
const WallTime kSince{1700000000s};

std::string line(std::vector<std::string> fields) {
  std::string out;
  for (std::size_t i = 0; i < fields.size(); ++i) out += (i == 0 ? "" : "\x1f") + fields[i];
  return out + "\n";
}
std::string ended(const std::string& id, const std::string& state, const std::string& comment = "",
                  const std::string& submit = "1700000005", const std::string& user = "alice") {
  return line({id, state, "0:125", submit, "n[001-003]", user, "tr11", comment});
}
std::vector<core::JobSeen> proven(const std::string& text) {
  const auto rows = parse_accounting(text);
  REQUIRE(rows);
  return proven_ends(*rows, kToken, "alice", kSince);
}

}  // namespace

TEST_CASE("sacct: a time that nanoseconds cannot hold -> none") {
  const auto rows = parse_accounting(ended("123_1", "FAILED", "", "17000000015"));
  REQUIRE(rows);
  CHECK(!rows->front().submitted);
}

TEST_CASE("sacct: tasks of our job that are over -> how they ended") {
  const auto ends = proven(ended("123_1", "OUT_OF_MEMORY") + ended("123_2", "CANCELLED by 1000") +
                           ended("123_[3-10%1]", "CANCELLED by 1000") + ended("123_4", "RUNNING"));
  REQUIRE(ends.size() == 3);
  CHECK(ends[0].job == JobId{123, 0});  // the tasks that never started
  CHECK(ends[1].job == JobId{123, 1});
  CHECK(ends[1].state == JobState::OutOfMemory);
  CHECK(ends[1].signal == 125);
  CHECK(ends[1].nodes.size() == 3);
  CHECK(ends[1].token == kToken);
  CHECK(ends[2].cancelled_by_uid == 1000);
}

TEST_CASE("sacct: as Debian's 22.05.8 with slurmdbd prints it -> how three tasks ended") {
  const std::string captured =
      "52064107_1|FAILED|3:0|1795359785|n01|alice|tr|tr-1-0\n"
      "52064107_2|FAILED|3:0|1795359785|n01|alice|tr|tr-1-0\n"
      "52064107_3|CANCELLED by 1001|0:0|1795359785|n01|alice|tr|tr-1-0\n";
  std::string text = captured;
  std::replace(text.begin(), text.end(), '|', '\x1f');
  const auto rows = parse_accounting(text);
  REQUIRE(rows);
  const auto ends = proven_ends(*rows, Token("tr-1-0"), "alice", WallTime(1795359785s));
  REQUIRE(ends.size() == 3);
  CHECK(ends[0].job == JobId{52064107, 1});
  CHECK(ends[0].exit_code == 3);
  CHECK(ends[2].state == JobState::Cancelled);
  CHECK(ends[2].cancelled_by_uid == 1001);
}

TEST_CASE("sacct: a job outside an array -> its first task") {
  CHECK(proven(ended("123", "FAILED")).at(0).job == JobId{123, 1});
}

TEST_CASE(
    "sacct: an older job of the id, another user's, another token, still running -> nothing") {
  CHECK(proven(ended("123_1", "COMPLETED", "", "1400000000")).empty());
  CHECK(proven(ended("123_1", "COMPLETED", "", "Unknown")).empty());
  CHECK(proven(ended("123_1", "COMPLETED", "", "1700000005", "bob")).empty());
  CHECK(proven(ended("123_1", "COMPLETED", "tr11-43-ffffffff")).empty());
  CHECK(proven(line({"123_1", "COMPLETED", "0:0", "1700000005", "n1", "alice", "other", ""}))
            .empty());
  CHECK(proven(ended("123_1", "RUNNING")).empty());
  CHECK(proven("").empty());
}

TEST_CASE("sacct: duplicates of a requeued job -> the newest start counts") {
  CHECK(proven(ended("123_1", "NODE_FAIL") + ended("123_1", "RUNNING")).empty());
  const auto ends = proven(ended("123_1", "PREEMPTED") + ended("123_1", "FAILED"));
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].state == JobState::Failed);
}

TEST_CASE(
    "sacct: torn, foreign, odd lines -> errors; truncated words and hostile comments -> read") {
  const std::string good = ended("123_1", "OUT_OF_ME+", "a|b\x1f$(c)");
  CHECK(parse_accounting(good)->at(0).state == JobState::OutOfMemory);
  CHECK(parse_accounting(good)->at(0).comment == "a|b\x1f$(c)");
  for (const std::string& bad :
       {good.substr(0, good.size() - 1), std::string("Slurm accounting storage is disabled\n"),
        ended("x", "FAILED"), ended("123_x", "FAILED"), ended("123_1", "TERMINÉ"),
        std::string("123\x1f"
                    "FAILED\n")})
    CHECK_MESSAGE(!parse_accounting(bad), bad);
}

TEST_CASE("sacct: command -> explicit columns, the job, and not before it was submitted") {
  const auto argv = accounting_command(123, 2h);
  CHECK(argv.front() == "sacct");
  for (const char* word : {"-X", "-P", "-D", "--delimiter=\x1f", "now-7200seconds", "123"})
    CHECK_MESSAGE(std::find(argv.begin(), argv.end(), word) != argv.end(), word);
}

TEST_CASE("sacct: a job that slurmctld denies -> its end at once where there are accounts") {
  ScriptedProcesses processes;
  MemoryFiles files;
  Instant now{};
  SlurmOptions options{"alice", {{"PATH", "/usr/bin"}}, 60s, 45s, [&now] { return now; }};
  options.wall = [] { return kSince + 1h; };
  SlurmScheduler scheduler(processes, files, options);
  const auto config = [](const std::string& storage) {
    return says("Configuration\nAccountingStorageType   = accounting_storage/" + storage +
                "\nClusterName             = jean\nSLURM_VERSION           = 22.05.8\n");
  };
  const auto denied = says("", "slurm_load_jobs error: Invalid job id specified\n", 1);
  processes.answers["squeue"] = {says("")};
  processes.answers["sinfo"] = {says("n001\x1fidle\x1fnone\n")};
  processes.answers["sacct"] = {says(ended("123_1", "OUT_OF_MEMORY"))};
  processes.answers["scontrol"] = {config("slurmdbd"), denied};
  scheduler.expect({{kToken, {123, 0}, kSince}});
  const auto view = scheduler.observe({RunName("tr11")});
  REQUIRE(view);
  REQUIRE(view->jobs.size() == 1);
  CHECK(view->jobs[0].state == JobState::OutOfMemory);
  CHECK(view->gone.empty());
  processes.answers["sacct"] = {says("", "sacct: error: slurm_persist_conn_open failed\n", 1)};
  now += 61s;
  REQUIRE(scheduler.observe({RunName("tr11")}));  // a failure of sacct proves nothing
  CHECK(processes.count("sacct") == 2);

  ScriptedProcesses without;
  without.answers = processes.answers;
  without.answers["scontrol"] = {config("none"), denied};
  SlurmScheduler plain(without, files, options);
  plain.expect({{kToken, {123, 0}, kSince}});
  REQUIRE(plain.observe({RunName("tr11")}));
  CHECK(without.count("sacct") == 0);
}
