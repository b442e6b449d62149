// JSON of one job in the shapes of nine releases (tests/slurm/json, each file names its source):
// the same fields come out of all of them.
#include "slurm/job_json.hpp"

#include <doctest/doctest.h>
#include <filesystem>

#include "common/os/files.hpp"

using namespace stoker;
using namespace stoker::slurm;
using core::JobState;

namespace {

std::vector<JobDetail> read(const std::string& release) {
  const std::string path =
      std::string(STOKER_SOURCE_DIR) + "/tests/slurm/json/" + release + ".json";
  const auto text = os::read_file(path, 1u << 20);
  REQUIRE_MESSAGE(text, path);
  auto jobs = parse_job_json(*text);
  REQUIRE_MESSAGE(jobs, path);
  return *jobs;
}

}  // namespace

TEST_CASE("json: captured from 22.05.8 -> the array's tasks, the refused submission's exclusions") {
  const auto jobs = read("22.05.8");
  REQUIRE(jobs.size() == 3);
  CHECK(jobs[0].id == JobId{863248, 0});  // "2-3%1" is no single task
  CHECK(jobs[0].state == JobState::Pending);
  CHECK(jobs[1].id == JobId{863248, 1});
  CHECK(jobs[1].state == JobState::Running);
  CHECK(jobs[1].excluded.empty());
  CHECK(jobs[1].nodes == "n[01-02]");
  CHECK(jobs[1].ends == WallTime(1826893346s));
  CHECK(jobs[0].nodes.empty());
  CHECK(!jobs[0].ends);
  CHECK(jobs[1].command == "/gpfs/tr11/run/batch/tr11-42-0badcafe.sh");
  CHECK(jobs[1].name == "tr11");
  CHECK(jobs[2].id == JobId{863243, 0});  // array_job_id 0: outside an array
  CHECK(jobs[2].state == JobState::Failed);
  CHECK(jobs[2].excluded == "n[01-07]");
}

TEST_CASE("json: 21.08, 23.02, 23.11 -> the same failed task from numbers, objects and lists") {
  for (const char* release : {"21.08", "23.02", "23.11"}) {
    const auto jobs = read(release);
    REQUIRE_MESSAGE(jobs.size() == 1, release);
    const JobDetail& job = jobs.front();
    CHECK_MESSAGE((job.id == JobId{123, 1}), release);
    CHECK_MESSAGE(job.state == JobState::Failed, release);
    CHECK_MESSAGE(job.exit_code == 9, release);
    CHECK_MESSAGE(job.signal == 0, release);
    CHECK_MESSAGE(job.restarts == 3, release);
    CHECK_MESSAGE(job.excluded == "n[052-053]", release);
    CHECK_MESSAGE(token_of_command(job.command).text == "tr11-42-0badcafe", release);
  }
}

TEST_CASE("json: 24.05 ... 26.05 -> flags beside the state, unset numbers, signals, lists") {
  const auto completing = read("24.05");
  REQUIRE(completing.size() == 2);
  CHECK(completing[0].state == JobState::Completing);  // FAILED, but not over yet
  CHECK(completing[1].state == JobState::OutOfMemory);
  CHECK(completing[1].signal == 9);
  CHECK(completing[1].exit_code == 0);
  CHECK(read("24.11").at(0).id == JobId{123, 0});
  CHECK(read("25.05").at(0).id == JobId{124, 0});
  CHECK(read("25.05").at(0).restarts == 1);
  CHECK(read("25.11").at(0).state == JobState::Pending);
  CHECK(read("26.05").at(0).state == JobState::Cancelled);
  CHECK(read("26.05").at(0).excluded == "n052,n053");
}

TEST_CASE("json: every file of the folder is read and names its source") {
  std::size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(STOKER_SOURCE_DIR) + "/tests/slurm/json")) {
    ++files;
    const auto text = os::read_file(entry.path().string(), 1u << 20);
    REQUIRE(text);
    CHECK_MESSAGE(parse_job_json(*text), entry.path().string());
    CHECK(text->find("\"_source\": \"") != std::string::npos);
  }
  CHECK(files == 9);
}

TEST_CASE("json: torn, foreign, hostile -> errors, never a job made up") {
  for (const char* bad :
       {"", "{", "[]", "7", "{\"jobs\": 7}", "{\"jobs\": [7]}", "{\"jobs\": [{}]}",
        "{\"jobs\": [{\"job_id\": -1, \"job_state\": \"RUNNING\"}]}",
        "{\"jobs\": [{\"job_id\": 1}]}", "{\"jobs\": [{\"job_id\": 1, \"job_state\": []}]}",
        "{\"jobs\": [{\"job_id\": 1, \"job_state\": [\"RUNNING\", 7]}]}",
        "{\"jobs\": [{\"job_id\": 1, \"job_state\": \"LÄUFT\"}]}",
        "{\"jobs\": [{\"job_id\": {\"set\": false, \"number\": 4}, \"job_state\": \"RUNNING\"}]}"})
    CHECK_MESSAGE(!parse_job_json(bad), bad);
  CHECK(parse_job_json("{\"jobs\": []}")->empty());
  const auto odd = parse_job_json(
      "{\"jobs\": [{\"job_id\": 1, \"job_state\": \"RUNNING\", \"name\": 7, \"restart_cnt\": \"x\","
      " \"exit_code\": {\"return_code\": null}, \"array_task_id\": 4294967294,"
      " \"array_job_id\": 1}]}");
  REQUIRE(odd);
  CHECK(odd->front().id == JobId{1, 0});  // NO_VAL is no task
  CHECK(odd->front().name.empty());
}

TEST_CASE("json: releases -> from 23.02 on scontrol writes it") {
  for (const char* yes : {"23.02.0", "23.11.10", "24.05.1", "26.05.3"})
    CHECK_MESSAGE(scontrol_writes_json(yes), yes);
  for (const char* no : {"22.05.8", "21.08.1", "", "x", "23", "23."})
    CHECK_MESSAGE(!scontrol_writes_json(no), no);
}
