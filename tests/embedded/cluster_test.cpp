// The embedded cluster on real processes: the path of a job from submission to its end.
#include <csignal>
#include <doctest/doctest.h>

#include "cluster_fixture.hpp"
#include "common/os/files.hpp"

using namespace stoker;
using namespace stoker::embedded;
using namespace stoker::embedded::testing;
using core::JobState;

TEST_CASE("cluster: job of two nodes -> runs on both with SLURM's variables, COMPLETED") {
  ClusterFixture c;
  SubmitJob job = c.script("env | sort > env.$SLURMD_NODENAME");
  job.nodes = 2;
  const JobId id = c.submit(job);
  REQUIRE(c.reaches({id.job, 1}, JobState::Completed));
  const std::string env = c.read("env.n02");
  for (const char* line :
       {"SLURM_ARRAY_JOB_ID=1\n", "SLURM_ARRAY_TASK_ID=1\n", "SLURM_RESTART_COUNT=0\n",
        "SLURM_JOB_NODELIST=n[01-02]\n", "SLURM_NNODES=2\n", "SLURM_NODEID=1\n",
        "SLURM_JOB_NAME=run\n", "STOKER_TOKEN=run-1\n",
        "STOKER_NODE_ADDRESSES=n01=127.0.0.1,n02=127.0.0.1\n"})
    CHECK_MESSAGE(env.find(line) != std::string::npos, line);
  CHECK(env.find("STOKER_JOB_END_NS=1") != std::string::npos);
  CHECK(c.read("env.n01").find("SLURM_NODEID=0\n") != std::string::npos);
  CHECK(c.node("n04").state == "IDLE");  // as many as needed plus two
  CHECK(c.must(Observe{}).nodes.size() == 4);
  const core::JobSeen seen = c.task({id.job, 1});
  CHECK(seen.exit_code == 0);
  CHECK(seen.token.text == "run-1");
  CHECK(c.task({id.job, 1}).nodes == std::vector{NodeName("n01"), NodeName("n02")});
}

TEST_CASE("cluster: agents exit 3 and 7 -> FAILED with the highest") {
  ClusterFixture c;
  SubmitJob job = c.script("exit $((3 + 4 * SLURM_NODEID))");
  job.nodes = 2;
  const JobId id = c.submit(job);
  REQUIRE(c.reaches({id.job, 1}, JobState::Failed));
  CHECK(c.task({id.job, 1}).exit_code == 7);
  CHECK(c.task({id.job, 1}).reason == "NonZeroExitCode");
}

TEST_CASE("cluster: command that does not exist -> FAILED, said in its log") {
  ClusterFixture c;
  SubmitJob job = c.script("");
  job.argv = {"/no/such/agent"};
  const JobId id = c.submit(job);
  REQUIRE(c.reaches({id.job, 1}, JobState::Failed));
  CHECK(c.task({id.job, 1}).reason == "LaunchFailed");
  CHECK(c.output({id.job, 1}, "n01").find("/no/such/agent") != std::string::npos);
}

TEST_CASE("cluster: running job cancelled -> TERM, CANCELLED by us, nothing left") {
  ClusterFixture c;
  const JobId id =
      c.submit(c.script("trap 'echo term >> got; exit 0' TERM; touch up; setsid sleep 60 & "
                        "while :; do sleep 0.05; done"));
  REQUIRE(c.eventually([&] { return os::exists(c.path() + "/up"); }));
  LocalScheduler port(c.options);
  CHECK(std::holds_alternative<std::monostate>(
      port.cancel({Token("run-1"), {id.job, 1}, false, false})));
  REQUIRE(c.reaches({id.job, 1}, JobState::Cancelled));
  CHECK(c.read("got") == "term\n");
  CHECK(c.task({id.job, 1}).cancelled_by_us);
  CHECK(c.live_processes() == 0);
}

TEST_CASE("cluster: cancel with another token -> the job goes on") {
  ClusterFixture c;
  const JobId id = c.submit(c.script("sleep 60"));
  REQUIRE(c.reaches({id.job, 1}, JobState::Running));
  c.must(CancelJob{Token("foreign"), id, false, true});
  CHECK(c.task({id.job, 1}).state == JobState::Running);
}

TEST_CASE("cluster: time limit, process ignores TERM -> USR1, TERM, KILL, TIMEOUT") {
  ClusterFixture c;
  SubmitJob job = c.script(
      "trap 'date +%s%N > usr1' USR1; trap 'date +%s%N > term' TERM; date +%s%N > begin; "
      "while :; do sleep 0.02; done");
  job.time_limit = 1500ms;
  job.signal_before = 500ms;
  const JobId id = c.submit(job);
  REQUIRE(c.reaches({id.job, 1}, JobState::Timeout));
  const auto ms = [&c](const char* name) { return std::stoll(c.read(name)) / 1000000; };
  CHECK(ms("usr1") - ms("begin") >= 800);
  CHECK(ms("term") - ms("usr1") >= 350);
  CHECK(c.task({id.job, 1}).reason == "TimeLimit");
  CHECK(c.live_processes() == 0);
}
