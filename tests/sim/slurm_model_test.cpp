// The simulator's SLURM answers as slurmctld 22.05.8 did: each expectation was captured there, with
// its job ids replaced. tests/slurm/real/model.py compares the two on random operations.
#include "tests/sim/slurm_model.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::sim;

TEST_CASE("model of SLURM: scancel of an array -> its waiting tasks stay, one by one") {
  ModelSlurm slurm;
  const std::string id = slurm.submit("--array=1-3%1 --requeue");
  CHECK(slurm.error({"scancel", id}) == "");
  slurm.pass(6s);
  CHECK(slurm.rows() == "1 CANCELLED None\n2 CANCELLED None\n3 CANCELLED None\n");
  CHECK(slurm.numbers(id) == "1100_1 0 15 \n1100_2 0 0 \n1100_3 0 0 \n");
  CHECK(slurm.error({"scontrol", "hold", id}) == "1100_1-3: Job has already finished\n");
}

TEST_CASE(
    "model of SLURM: a task that waits in a cancelled array's record -> requeued with all of it") {
  ModelSlurm slurm;
  const std::string id = slurm.submit("--array=1-3%1 --requeue");
  slurm.run({"scancel", id});
  slurm.pass(6s);
  CHECK(slurm.error({"scontrol", "requeue", id + "_2"}) == "");
  CHECK(slurm.numbers(id) == "1100_1 0 15 \n1100_2 1 0 \n1100_3 1 0 \n");
  slurm.pass(18s);
  CHECK(slurm.rows() == "1 CANCELLED None\n2 RUNNING None\n3 PENDING Priority\n");
  CHECK(slurm.error({"scontrol", "requeue", id}) ==
        "1100_1-2: No error\n1100_3: Job is pending execution\n");
}

TEST_CASE("model of SLURM: the waiting tasks cancelled -> a row without a task number") {
  ModelSlurm slurm;
  const std::string id = slurm.submit("--array=1-3%1 --requeue");
  CHECK(slurm.error({"scancel", "--state=PENDING", id}) == "");
  CHECK(slurm.rows() == "N/A CANCELLED None\n1 RUNNING None\n");
  CHECK(slurm.error({"scontrol", "requeue", id + "_2"}) == "1100_2: Invalid job id specified\n");
}

TEST_CASE("model of SLURM: what is left of an array, requeued -> runs like a task") {
  ModelSlurm slurm;
  const std::string id = slurm.submit("--array=1-3%1 --hold --requeue");
  for (const char* task : {"_1", "_2", "_3"}) slurm.run({"scancel", id + task});
  CHECK(slurm.rows() == "N/A CANCELLED None\n");
  CHECK(slurm.error({"scontrol", "requeue", id}) == "");
  CHECK(slurm.rows() == "N/A PENDING JobHeldUser\n");
  CHECK(slurm.error({"scontrol", "release", id}) == "");
  slurm.pass(18s);
  CHECK(slurm.rows() == "N/A RUNNING None\n");
}

TEST_CASE("model of SLURM: one waiting task cancelled by its state -> all waiting ones are") {
  ModelSlurm slurm;
  const std::string id = slurm.submit("--array=1-4%1 --no-requeue");
  CHECK(slurm.error({"scancel", "--state=PENDING", id + "_3"}) == "");
  CHECK(slurm.rows() == "N/A CANCELLED None\n1 RUNNING None\n");
}

TEST_CASE("model of SLURM: scancel of what has ended -> an error only when selected by state") {
  ModelSlurm slurm;
  const std::string id = slurm.submit("--no-requeue");
  slurm.cluster.task_left(1100, 1, 1);
  slurm.pass(6s);
  CHECK(slurm.error({"scancel", id}) == "");
  CHECK(slurm.error({"scancel", "--state=PENDING", id}) ==
        "scancel: error: Kill job error on job id 1100: Invalid job id specified\n");
}

TEST_CASE("model of SLURM: an array of which tasks have ended -> an answer for each record") {
  ModelSlurm slurm;
  const std::string id = slurm.submit("--array=1-3%3 --requeue");
  slurm.cluster.task_left(1100, 3, 3);
  slurm.cluster.task_left(1100, 1, 3);
  slurm.pass(6s);
  CHECK(slurm.error({"scontrol", "suspend", id}) ==
        "1100_1,3: Job/step already completing or completed\n1100_2: No error\n");
  CHECK(slurm.error({"scontrol", "hold", id + "_2"}) == "");
  slurm.run({"scancel", id});
  slurm.pass(6s);
  CHECK(slurm.numbers(id) == "1100_1 0 768 \n1100_2 0 9 \n1100_3 0 768 \n");
}

TEST_CASE("model of SLURM: a suspended job that is requeued -> an administrator's hold") {
  ModelSlurm slurm;
  const std::string id = slurm.submit("--requeue");
  CHECK(slurm.error({"scontrol", "suspend", id}) == "");
  const std::string denied = "Access/permission denied for job 1100\n";
  CHECK(slurm.error({"scontrol", "release", id}) == denied);
  CHECK(slurm.error({"scontrol", "requeue", id}) == "");
  CHECK(slurm.rows() == "N/A PENDING JobHeldAdmin\n");
  CHECK(slurm.error({"scontrol", "hold", id}) == "");
  CHECK(slurm.error({"scontrol", "release", id}) == denied);
}

TEST_CASE("model of SLURM: held while it runs, failed, requeued -> an administrator's hold") {
  ModelSlurm slurm;
  const std::string id = slurm.submit("--array=1-2%2 --requeue");
  CHECK(slurm.error({"scontrol", "hold", id + "_1"}) == "");
  CHECK(slurm.error({"scontrol", "hold", id + "_2"}) == "");
  slurm.cluster.task_left(1100, 1, 0);
  slurm.cluster.task_left(1100, 2, 137);
  slurm.pass(6s);
  CHECK(slurm.error({"scontrol", "requeue", id}) == "");
  CHECK(slurm.rows() == "1 PENDING JobHeldUser\n2 PENDING JobHeldAdmin\n");
}

TEST_CASE("model of SLURM: a requeued task -> its last exit code until it starts") {
  ModelSlurm slurm;
  const std::string id = slurm.submit("--requeue");
  slurm.cluster.task_left(1100, 1, 3);
  slurm.pass(6s);
  CHECK(slurm.error({"scontrol", "requeue", id}) == "");
  CHECK(slurm.numbers(id) == "1100 1 768 \n");
  slurm.pass(18s);
  CHECK(slurm.rows() == "N/A RUNNING None\n");
  CHECK(slurm.numbers(id) == "1100 1 0 \n");
}

TEST_CASE("model of SLURM: a waiting task that was updated -> starts before the others") {
  ModelSlurm slurm;
  const std::string id = slurm.submit("--array=1-6%1 --no-requeue --hold");
  slurm.cluster.task_left(1100, 1, 0);
  CHECK(slurm.error({"scontrol", "update", "JobId=" + id + "_6", "ExcNodeList=n0008"}) == "");
  CHECK(slurm.error({"scontrol", "release", id + "_6"}) == "");
  CHECK(slurm.rows().find("6 RUNNING None") != std::string::npos);
  slurm.run({"scancel", id});
  slurm.pass(6s);

  const std::string next = slurm.submit("--array=1-6%1 --no-requeue");
  CHECK(slurm.error({"scontrol", "update", "JobId=" + next + "_6", "TimeLimit=3000"}) == "");
  slurm.cluster.task_left(1200, 1, 0);
  slurm.pass(8s);
  CHECK(slurm.cluster.jobs().at(1200).state.at(6).state == core::JobState::Running);
  CHECK(slurm.cluster.jobs().at(1200).state.at(2).state == core::JobState::Pending);
}

// As 22.05.8 does: priorities 59 for what is left of the array, 58 for _1, 57 for _4, 56 for _2.
TEST_CASE("model of SLURM: a released array -> its rest first, then single tasks, newest first") {
  ModelSlurm slurm;
  const std::string id = slurm.submit("--array=1-6%1 --no-requeue --hold");
  for (const char* task : {"_2", "_4", "_1"})
    CHECK(slurm.error({"scontrol", "update", "JobId=" + id + task, "TimeLimit=3000"}) == "");
  slurm.run({"scontrol", "release", id});
  const auto& state = slurm.cluster.jobs().at(1100).state;
  CHECK(state.at(3).priority == state.at(6).priority);
  CHECK(state.at(3).priority > state.at(1).priority);
  CHECK(state.at(1).priority > state.at(4).priority);
  CHECK(state.at(4).priority > state.at(2).priority);
}

TEST_CASE(
    "model of SLURM: a node down, drained, resumed -> as sinfo shows it, and what ran there") {
  ModelSlurm slurm;
  const auto update = [&](const std::string& state) {
    return slurm.error({"scontrol", "update", "NodeName=n0001", "State=" + state, "Reason=fan"});
  };
  const auto node = [&] { return slurm.run({"sinfo"}).out; };
  const std::string refused = "slurm_update error: Invalid node state specified\n";
  CHECK(update("RESUME") == refused);
  const std::string id = slurm.submit("--array=1-2%1 --no-requeue");
  slurm.run({"scontrol", "suspend", id + "_1"});
  CHECK(update("DOWN") == "");
  slurm.pass(6s);
  CHECK(slurm.rows() == "1 NODE_FAIL None\n2 PENDING Priority\n");
  CHECK(slurm.numbers(id) == "1100_1 0 9 \n1100_2 0 0 \n");
  CHECK(node() ==
        "n0001\x1f"
        "down\x1f"
        "fan\n");
  CHECK(update("DRAIN") == "");
  CHECK(node() ==
        "n0001\x1f"
        "drained\x1f"
        "fan\n");
  CHECK(update("RESUME") == "");
  CHECK(slurm.rows() == "1 NODE_FAIL None\n2 RUNNING None\n");
  CHECK(update("DOWN") == "");
  slurm.pass(6s);
  CHECK(slurm.numbers(id) == "1100_1 0 9 \n1100_2 0 15 \n");
}
