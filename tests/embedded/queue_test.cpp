// The queue on real processes: arrays, dependencies, holds, exclusion, cancellation, accounting.
#include <doctest/doctest.h>

#include "cluster_fixture.hpp"
#include "common/os/files.hpp"
#include "embedded/admin.hpp"

using namespace stoker;
using namespace stoker::embedded;
using namespace stoker::embedded::testing;
using core::JobState;

TEST_CASE("queue: array of three -> one after the other, in order") {
  ClusterFixture c;
  SubmitJob job = c.script(
      "echo begin $SLURM_ARRAY_TASK_ID >> order; sleep 0.1; echo end $SLURM_ARRAY_TASK_ID >> "
      "order");
  job.array_tasks = 3;
  const JobId id = c.submit(job);
  REQUIRE(c.reaches({id.job, 3}, JobState::Completed));
  CHECK(c.read("order") == "begin 1\nend 1\nbegin 2\nend 2\nbegin 3\nend 3\n");
}

TEST_CASE("queue: %2 of three -> two at a time") {
  ClusterFixture c;
  SubmitJob job = c.script("while [ ! -e go ]; do sleep 0.02; done");
  job.array_tasks = 3;
  job.throttle = 2;
  const JobId id = c.submit(job);
  REQUIRE(c.reaches({id.job, 2}, JobState::Running));
  CHECK(c.task({id.job, 1}).state == JobState::Running);
  CHECK(c.task({id.job, 3}).reason == "JobArrayTaskLimit");
  REQUIRE(os::replace_file(c.path() + "/go", "", os::Durability::Cached));
  REQUIRE(c.reaches({id.job, 3}, JobState::Completed));
}

TEST_CASE("queue: singleton and afterany -> start when the other has ended, even failed") {
  ClusterFixture c;
  const JobId first = c.submit(c.script("while [ ! -e go ]; do sleep 0.02; done; exit 1"));
  const JobId second = c.submit(c.script("true"));
  SubmitJob other = c.script("true", "other");
  other.dependency = "afterany:" + first.text();
  const JobId third = c.submit(other);
  REQUIRE(c.reaches({first.job, 1}, JobState::Running));
  CHECK(c.task({second.job, 1}).reason == "Dependency");
  CHECK(c.task({third.job, 1}).reason == "Dependency");
  REQUIRE(os::replace_file(c.path() + "/go", "", os::Durability::Cached));
  CHECK(c.reaches({second.job, 1}, JobState::Completed));
  CHECK(c.reaches({third.job, 1}, JobState::Completed));
}

TEST_CASE("queue: begin in 300 ms -> BeginTime, then runs") {
  ClusterFixture c;
  SubmitJob job = c.script("true");
  job.begin = "+300ms";
  const WallTime before = wall_now();
  const JobId id = c.submit(job);
  CHECK(c.eventually([&] { return c.task({id.job, 1}).reason == "BeginTime"; }));
  REQUIRE(c.reaches({id.job, 1}, JobState::Completed));
  CHECK(wall_now() - before >= 300ms);
}

TEST_CASE("queue: exclusions changed while pending -> the start keeps to the new list") {
  ClusterFixture c;
  SubmitJob job = c.script("true");
  job.begin = "+400ms";
  const JobId id = c.submit(job);
  LocalScheduler port(c.options);
  const auto done = port.set_exclusions({job.token, id, {NodeName("n01"), NodeName("n02")}});
  CHECK(std::holds_alternative<std::monostate>(done));
  REQUIRE(c.reaches({id.job, 1}, JobState::Completed));
  CHECK(c.task({id.job, 1}).nodes == std::vector{NodeName("n03")});
}

TEST_CASE("queue: hold and release -> JobHeldUser, then runs") {
  ClusterFixture c;
  SubmitJob job = c.script("true");
  job.begin = "+200ms";
  const JobId id = c.submit(job);
  c.must(HoldJob{id});
  CHECK(c.eventually([&] { return c.task({id.job, 1}).reason == "JobHeldUser"; }));
  c.must(ReleaseJob{id});
  CHECK(c.reaches({id.job, 1}, JobState::Completed));
}

TEST_CASE("queue: drained node -> not used, its job goes on, resumed -> IDLE") {
  ClusterFixture c;
  const JobId id = c.submit(c.script("while [ ! -e go ]; do sleep 0.02; done"));
  REQUIRE(c.reaches({id.job, 1}, JobState::Running));
  c.must(DrainNode{NodeName("n01"), "bad fan"});
  CHECK(c.node("n01").state == "DRAINING");
  CHECK(!c.node("n01").usable);
  CHECK(c.node("n01").reason == "bad fan");
  REQUIRE(os::replace_file(c.path() + "/go", "", os::Durability::Cached));
  REQUIRE(c.reaches({id.job, 1}, JobState::Completed));
  CHECK(c.node("n01").state == "DRAINED");
  const JobId next = c.submit(c.script("true"));
  REQUIRE(c.reaches({next.job, 1}, JobState::Completed));
  CHECK(c.task({next.job, 1}).nodes == std::vector{NodeName("n02")});
  c.must(ResumeNode{NodeName("n01")});
  CHECK(c.node("n01").state == "IDLE");
}

TEST_CASE(
    "queue: whole array cancelled -> running and pending tasks end; pending_only spares one") {
  ClusterFixture c;
  SubmitJob job = c.script("sleep 60");
  job.array_tasks = 3;
  const JobId id = c.submit(job);
  REQUIRE(c.reaches({id.job, 1}, JobState::Running));
  c.must(CancelJob{job.token, id, true, false});
  CHECK(c.task({id.job, 1}).state == JobState::Running);
  CHECK(c.task({id.job, 3}).state == JobState::Cancelled);
  CHECK(!c.task({id.job, 3}).cancelled_by_us);
  CHECK(c.task({id.job, 3}).cancelled_by_uid == ::getuid());
  c.must(CancelJob{job.token, id, false, false});
  CHECK(c.reaches({id.job, 1}, JobState::Cancelled));
}

TEST_CASE("queue: requeued while running -> runs again with the same id, restart 1") {
  ClusterFixture c;
  const JobId id = c.submit(
      c.script("echo $SLURM_RESTART_COUNT >> restarts; [ $SLURM_RESTART_COUNT = 1 ] || sleep 60"));
  REQUIRE(c.eventually([&] { return c.read("restarts") == "0\n"; }));
  c.must(RequeueJob{{id.job, 1}});
  REQUIRE(c.reaches({id.job, 1}, JobState::Completed));
  CHECK(c.task({id.job, 1}).restart == 1);
  CHECK(c.read("restarts") == "0\n1\n");
}

TEST_CASE("queue: requeue of what does not run -> an error, and it stays as it is") {
  ClusterFixture c;
  SubmitJob job = c.script("true");
  const JobId ended = c.submit(job);
  REQUIRE(c.reaches({ended.job, 1}, JobState::Completed));
  CHECK(c.refusal(RequeueJob{ended}).find("is not requeued") != std::string::npos);
  SubmitJob later = c.script("true", "later");
  later.begin = "+10min";
  const JobId waits = c.submit(later);
  CHECK(c.refusal(RequeueJob{{waits.job, 1}}).find("is not requeued") != std::string::npos);
  CHECK(c.task({ended.job, 1}).state == JobState::Completed);
  CHECK(c.task({waits.job, 1}).restart == 0);
}

TEST_CASE("queue: afterany of a task that its array does not have -> refused") {
  ClusterFixture c;
  const JobId id = c.submit(c.script("true"));
  SubmitJob job = c.script("true", "other");
  job.dependency = "afterany:" + JobId{id.job, 2}.text();
  CHECK(c.refusal(job).find("no such job") != std::string::npos);
  job.dependency = "afterany:" + JobId{id.job, 1}.text();
  CHECK(c.refusal(job).empty());
}

TEST_CASE("queue: the same token twice -> one job; look-up finds it, finished too") {
  ClusterFixture c;
  const SubmitJob job = c.script("echo x >> runs");
  const JobId id = c.submit(job);
  CHECK(c.submit(job) == id);
  REQUIRE(c.reaches({id.job, 1}, JobState::Completed));
  CHECK(c.submit(job) == id);
  LocalScheduler port(c.options);
  CHECK(std::get<std::optional<JobId>>(port.look_up(job.token)) == id);
  CHECK(std::get<std::optional<JobId>>(port.look_up(Token("other"))) == std::nullopt);
  CHECK(c.read("runs") == "x\n");
}

TEST_CASE("queue: hostile submissions -> refused in one line, hostile values stay one argument") {
  ClusterFixture c;
  const auto refused = [&c](const std::function<void(SubmitJob&)>& change) {
    SubmitJob job = c.script("true");
    change(job);
    const std::string why = c.refusal(job);
    return !why.empty() && why.find('\n') == std::string::npos;
  };
  CHECK(refused([](SubmitJob& j) { j.nodes = 0; }));
  CHECK(refused([](SubmitJob& j) { j.nodes = 4000000000u; }));
  CHECK(refused([](SubmitJob& j) { j.array_tasks = 0; }));
  CHECK(refused([](SubmitJob& j) { j.array_tasks = 1000000; }));
  CHECK(refused([](SubmitJob& j) { j.time_limit = -5s; }));
  CHECK(refused([](SubmitJob& j) { j.name = "a\nb"; }));
  CHECK(refused([](SubmitJob& j) { j.token = Token(); }));
  CHECK(refused([](SubmitJob& j) { j.argv.clear(); }));
  CHECK(refused([](SubmitJob& j) { j.environment["A=B"] = "c"; }));
  CHECK(refused([](SubmitJob& j) { j.dependency = "afterany:99"; }));
  CHECK(refused([](SubmitJob& j) { j.begin = "$(date)"; }));
  CHECK(refused([](SubmitJob& j) {
    j.cluster_nodes = 2;
    j.nodes = 3;
  }));
  CHECK(c.all().empty());
  SubmitJob odd = c.script("");
  odd.name = "; touch hacked; $(touch hacked) 'x\"";
  odd.argv = {"/bin/sh", "-c", "printf %s \"$1$SLURM_JOB_NAME\" > out", "sh", "$(touch hacked)"};
  const JobId id = c.submit(odd);
  REQUIRE(c.reaches({id.job, 1}, JobState::Completed));
  CHECK(c.read("out") == "$(touch hacked)" + odd.name);
  CHECK(!os::exists(c.path() + "/hacked"));
}

TEST_CASE("queue: observe with a thousand finished tasks -> bounded, names filter") {
  ClusterFixture c;
  SubmitJob job = c.script("true", "big");
  job.array_tasks = 1000;
  const JobId id = c.submit(job);
  c.must(CancelJob{job.token, id, false, true});
  REQUIRE(c.eventually([&] { return c.all().size() == 512; }));  // the first one has ended too
  LocalScheduler port(c.options);
  const auto view = port.observe({RunName("big")});
  REQUIRE(view);
  CHECK(view->jobs.size() == 512);
  CHECK(view->jobs.back().job == JobId{id.job, 1000});
  CHECK(port.observe({RunName("nothing")})->jobs.empty());
}

TEST_CASE("admin: verbs -> exit codes and output as scripted") {
  ClusterFixture c;
  const JobId id = c.submit(c.script("sleep 60"));
  REQUIRE(c.reaches({id.job, 1}, JobState::Running));
  std::string out, err;
  CHECK(run_admin(c.options, {"list"}, out, err) == 0);
  CHECK(out.find("1_1 ") != std::string::npos);
  CHECK(out.find("RUNNING") != std::string::npos);
  CHECK(run_admin(c.options, {"drain", "n03", "loose cable"}, out, err) == 0);
  CHECK(c.node("n03").state == "DRAINED");
  out.clear();
  CHECK(run_admin(c.options, {"--json", "list"}, out, err) == 0);
  CHECK(from_json_text<Answer>(out, "list")->lines.size() == 1);
  CHECK(run_admin(c.options, {"kill-node", "n99"}, out, err) == 1);
  CHECK(run_admin(c.options, {"explode", "n01"}, out, err) == 2);
  CHECK(run_admin(c.options, {"requeue", "1; rm"}, out, err) == 2);
  CHECK(run_admin(c.options, {"shutdown"}, out, err) == 1);
  CHECK(run_admin(c.options, {"cancel", "1_1"}, out, err) == 0);
  REQUIRE(c.reaches({id.job, 1}, JobState::Cancelled));
  CHECK(run_admin(c.options, {"shutdown"}, out, err) == 0);
  CHECK(c.eventually([&] { return c.scheduler_pid() == 0; }));
}
