// The simulator's SLURM: on which nodes a job is, and what becomes of it when it loses one. As
// slurmctld 22.05.8 did, where its administrator has set the node down and its slurmd lives.
#include "tests/sim/slurm_model.hpp"

using namespace stoker;
using namespace stoker::sim;

namespace {

void set_down(ModelSlurm& slurm, const std::string& node) {
  const std::string name = "NodeName=" + node;
  CHECK(slurm.error({"scontrol", "update", name, "State=DOWN", "Reason=fan"}) == "");
  slurm.pass(6s);
}

}  // namespace

TEST_CASE("model of SLURM: a node down under a job of two -> NODE_FAIL, with both nodes") {
  ModelSlurm slurm(2);
  slurm.submit("--nodes=2 --no-requeue");
  set_down(slurm, "n0002");
  CHECK(slurm.places() == "N/A NODE_FAIL n[0001-0002]\n");
  CHECK(slurm.numbers("1100") == "1100 0 15 \n");
}

TEST_CASE("model of SLURM: --no-kill, a node down -> runs on without it; again on both") {
  ModelSlurm slurm(2);
  slurm.submit("--nodes=2 --requeue --no-kill");
  set_down(slurm, "n0002");
  CHECK(slurm.places() == "N/A RUNNING n0001\n");
  slurm.run({"scontrol", "update", "NodeName=n0002", "State=RESUME"});
  CHECK(slurm.error({"scontrol", "requeue", "1100"}) == "");
  slurm.pass(18s);
  CHECK(slurm.places() == "N/A RUNNING n[0001-0002]\n");
}

TEST_CASE("model of SLURM: --no-kill, the script's node down -> FAILED, on the other node") {
  ModelSlurm slurm(2);
  slurm.submit("--nodes=2 --requeue --no-kill");
  set_down(slurm, "n0001");
  CHECK(slurm.places() == "N/A FAILED n0002\n");
  CHECK(slurm.numbers("1100") == "1100 0 9 \n");
}

TEST_CASE("model of SLURM: a dead node under a job of two -> only --no-kill keeps it") {
  for (const bool no_kill : {false, true}) {
    CAPTURE(no_kill);
    ModelSlurm slurm(2);
    slurm.submit(no_kill ? "--nodes=2 --no-kill" : "--nodes=2");
    slurm.cluster.node_dies(NodeName("n0002"));
    slurm.pass(310s);
    CHECK(slurm.places() == (no_kill ? "N/A RUNNING n0001\n" : "N/A NODE_FAIL n[0001-0002]\n"));
  }
}

TEST_CASE("model of SLURM: a job that completes -> only nodes that have not finished") {
  ModelSlurm slurm(3);
  slurm.submit("--nodes=3");
  slurm.cluster.task_left(1100, 1, 0);
  CHECK(slurm.places() == "N/A COMPLETING n[0001-0003]\n");
  slurm.pass(1s);
  CHECK(slurm.places() == "N/A COMPLETING n0003\n");
  CHECK(slurm.places() == "N/A COMPLETED n[0001-0003]\n");
}

TEST_CASE(
    "model of SLURM: another list of nodes -> for what waits; the rest before it is in its way") {
  ModelSlurm slurm(2);
  const std::string id = slurm.submit("--array=1-3%3 --nodes=1 --nodelist=n0001 --hold");
  CHECK(slurm.error({"scontrol", "update", "JobId=" + id + "_2", "NodeList=n0002"}) == "");
  slurm.run({"scontrol", "update", "NodeName=n0001", "State=DRAIN", "Reason=fan"});
  slurm.run({"scontrol", "release", id});
  slurm.pass(4s);
  CHECK(slurm.places() == "1 PENDING \n2 PENDING \n3 PENDING \n");
  slurm.run({"scontrol", "update", "NodeName=n0001", "State=RESUME"});
  slurm.pass(8s);
  CHECK(slurm.places() == "1 RUNNING n0001\n2 RUNNING n0002\n3 RUNNING n0001\n");
  CHECK(slurm.error({"scontrol", "update", "JobId=" + id + "_2", "NodeList=n0001"}) ==
        "1100_2: Invalid node name specified\n");
}

TEST_CASE("model of SLURM: its end is moved to now -> TIMEOUT; of what waits it has none") {
  ModelSlurm slurm;
  const std::string id = slurm.submit("--array=1-2%1 --nodes=1");
  CHECK(slurm.error({"scontrol", "update", "JobId=" + id + "_1", "EndTime=now+1"}) == "");
  CHECK(slurm.error({"scontrol", "update", "JobId=" + id + "_2", "EndTime=now+1"}) ==
        "1100_2: Job is not running\n");
  slurm.pass(6s);
  CHECK(slurm.places() == "1 TIMEOUT n0001\n2 RUNNING n0001\n");
  CHECK(slurm.numbers(id) == "1100_1 0 15 \n1100_2 0 0 \n");
}

TEST_CASE("model of SLURM: a script that dies of a signal -> FAILED, with the signal") {
  ModelSlurm slurm;
  slurm.submit("--nodes=1");
  slurm.cluster.task_left(1100, 1, 0, 9);
  slurm.pass(6s);
  CHECK(slurm.places() == "N/A FAILED n0001\n");
  CHECK(slurm.numbers("1100") == "1100 0 9 \n");
}

// Of an array of two each task has a record of its own once one was updated, and the first one in
// line finds no node; of three, the updated one overtakes the array's record.
TEST_CASE("model of SLURM: a task of an array finds no node -> its others are passed over") {
  for (const char* tasks : {"2", "3"}) {
    CAPTURE(tasks);
    ModelSlurm slurm(2);
    set_down(slurm, "n0002");
    const std::string id =
        slurm.submit(std::string("--nodes=1 --nodelist=n0002 --array=1-") + tasks + "%3");
    CHECK(slurm.error({"scontrol", "update", "JobId=" + id + "_2", "NodeList=n0001"}) == "");
    slurm.pass(20s);
    const bool runs = slurm.places().find("2 RUNNING n0001\n") != std::string::npos;
    CHECK(runs == (std::string(tasks) == "3"));
  }
}
