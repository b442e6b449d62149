// The simulator's SLURM: what slurmctld forgets (MinJobAge), and what sacct still has of it. As
// 22.05.8 did. After a restart slurmctld reports ends once more, with what they died of, but not
// who cancelled them.
#include "tests/sim/slurm_model.hpp"

using namespace stoker;
using namespace stoker::sim;

TEST_CASE("model of SLURM: an ended task is purged -> unknown, the others stay") {
  ModelSlurm slurm;
  const std::string id = slurm.submit("--array=1-3%2 --nodes=1");
  slurm.cluster.task_left(1100, 1, 0);
  slurm.pass(6s);
  slurm.cluster.purge(0s);
  CHECK(slurm.places() == "2 RUNNING n0001\n3 RUNNING n0001\n");
  CHECK(slurm.numbers(id) == "1100_2 0 0 \n1100_3 0 0 \n");
  CHECK(slurm.error({"scontrol", "hold", id + "_1"}) == "1100_1: Invalid job id specified\n");
  CHECK(slurm.error({"scancel", id + "_1"}) == "");
  CHECK(slurm.error({"scancel", "--state=PENDING", id + "_1"}) ==
        "scancel: error: Kill job error on job id 1100_1: Invalid job id specified\n");
}

TEST_CASE("model of SLURM: the record of an array itself -> stays until all tasks are over") {
  ModelSlurm slurm;
  const std::string id = slurm.submit("--array=1-2%2 --nodes=1");
  slurm.cluster.task_left(1100, 2, 0);
  slurm.pass(6s);
  slurm.cluster.purge(0s);
  CHECK(slurm.places() == "1 RUNNING n0001\n2 COMPLETED n0001\n");
  slurm.cluster.task_left(1100, 1, 0);
  slurm.pass(6s);
  slurm.cluster.purge(0s);
  CHECK(slurm.places() == "");
  CHECK(slurm.error({"scontrol", "show", "job", "-o", id}) ==
        "slurm_load_jobs error: Invalid job id specified\n");
  CHECK(slurm.error({"scontrol", "requeue", id}) == "Invalid job id specified for job 1100\n");
}

TEST_CASE("model of SLURM: sacct -> every end, also of what slurmctld has forgotten") {
  ModelSlurm slurm(1, true);
  const std::string id = slurm.submit("--array=1-4%2 --nodes=1 --comment=t --requeue");
  slurm.cluster.task_left(1100, 1, 137);
  slurm.pass(8s);  // _3 starts
  CHECK(slurm.accounts(id) ==
        "1100_1 FAILED 9:0 n0001 t\n1100_2 RUNNING 0:0 n0001 \n1100_3 RUNNING 0:0 n0001 \n"
        "1100_4 PENDING 0:0 None assigned \n");
  CHECK(slurm.error({"scontrol", "requeue", id + "_2"}) == "");  // _4 starts
  CHECK(slurm.error({"scancel", id}) == "");
  slurm.pass(6s);
  slurm.cluster.purge(0s);
  CHECK(slurm.rows() == "");
  CHECK(slurm.accounts(id) ==
        "1100_1 FAILED 9:0 n0001 t\n1100_2 REQUEUED 0:0 n0001 t\n"
        "1100_2 CANCELLED by 1000 0:0 None assigned t\n1100_3 CANCELLED by 1000 0:0 n0001 t\n"
        "1100_4 CANCELLED by 1000 0:0 n0001 t\n");
}

TEST_CASE(
    "model of SLURM: sacct of a cancelled rest -> one row; after a restart, without who did") {
  ModelSlurm slurm(1, true);
  const std::string id = slurm.submit("--array=1-3%1 --nodes=1 --comment=t");
  CHECK(slurm.error({"scancel", id}) == "");
  slurm.pass(6s);
  CHECK(slurm.accounts(id) ==
        "1100_1 CANCELLED by 1000 0:0 n0001 t\n"
        "1100_[2,3%1] CANCELLED by 1000 0:0 None assigned t\n");
  slurm.cluster.controller_restarts();
  CHECK(slurm.accounts(id) ==
        "1100_1 CANCELLED 0:15 n0001 t\n1100_[2,3%1] CANCELLED 0:0 None assigned t\n");
}

TEST_CASE("model of SLURM: no slurmdbd -> no sacct") {
  ModelSlurm slurm;
  os::SpawnOptions options;
  options.argv = {"sacct", "-j", "1100"};
  CHECK(!slurm.text.run(options, 1min));
}

TEST_CASE("model of SLURM: failed, requeued, cancelled while it waits -> sacct repeats the code") {
  ModelSlurm slurm(1, true);
  const std::string id = slurm.submit("--nodes=1 --requeue --comment=t");
  slurm.cluster.task_left(1100, 1, 3);
  slurm.pass(6s);
  CHECK(slurm.error({"scontrol", "requeue", id}) == "");
  CHECK(slurm.error({"scancel", id}) == "");
  slurm.pass(6s);
  CHECK(slurm.accounts(id).find("CANCELLED by 1000 3:0 None assigned") != std::string::npos);
}
