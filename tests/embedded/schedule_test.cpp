// The pure parts: who may start, begin times, dependencies, what follows from a node's loss.
#include "embedded/schedule.hpp"

#include <csignal>
#include <doctest/doctest.h>

#include "embedded/begin_time.hpp"
#include "embedded/lifecycle.hpp"
#include "embedded/node_folder.hpp"

using namespace stoker;
using namespace stoker::embedded;
using core::JobState;

namespace {

const WallTime kNow{1'700'000'000s};

Cluster cluster_of(std::uint32_t nodes) {
  Cluster cluster;
  grow_nodes(cluster, nodes);
  return cluster;
}

Job& add(Cluster& cluster, const std::string& name, std::uint32_t nodes, std::uint32_t tasks = 1) {
  Job job;
  job.id = cluster.next_id++;
  job.request.name = name;
  job.request.nodes = nodes;
  job.request.array_tasks = tasks;
  job.request.time_limit = 1h;
  job.begin = kNow;
  for (std::uint32_t t = 1; t <= tasks; ++t) {
    Task task;
    task.id = {job.id, t};
    cluster.tasks[task.id] = task;
  }
  return cluster.jobs[job.id] = job;
}

void begin(Cluster& cluster, const JobId& id, std::vector<NodeName> nodes) {
  start_task(cluster.tasks.at(id), cluster.jobs.at(id.job), std::move(nodes), 100, kNow);
}

}  // namespace

TEST_CASE("schedule: array of three, throttle 1 -> one starts, the others wait for it") {
  Cluster c = cluster_of(4);
  add(c, "a", 1, 3);
  const Plan plan = plan_starts(c, kNow);
  REQUIRE(plan.starts.size() == 1);
  CHECK(plan.starts[0].task == JobId{1, 1});
  CHECK(plan.starts[0].nodes == std::vector{NodeName("n01")});
  CHECK(plan.reasons.at({1, 2}) == "JobArrayTaskLimit");
}

TEST_CASE("schedule: background -> after all others, and delays no other") {
  Cluster c = cluster_of(3);
  add(c, "a", 2);
  begin(c, {1, 1}, {NodeName("n01"), NodeName("n02")});
  add(c, "a+evaluate.100", 2).request.background = true;
  add(c, "b", 1);
  const Plan plan = plan_starts(c, kNow);
  REQUIRE(plan.starts.size() == 1);
  CHECK(plan.starts[0].task == JobId{3, 1});
  CHECK(plan.reasons.at({2, 1}) == "Resources");
}

TEST_CASE("schedule: background while another waits for busy nodes -> waits too") {
  Cluster c = cluster_of(2);
  add(c, "a", 1);
  begin(c, {1, 1}, {NodeName("n01")});
  add(c, "a+evaluate.100", 1).request.background = true;
  add(c, "b", 2);
  const Plan plan = plan_starts(c, kNow);
  CHECK(plan.starts.empty());
  CHECK(plan.reasons.at({2, 1}) == "Priority");
}

TEST_CASE("schedule: throttle 2 -> two start") {
  Cluster c = cluster_of(4);
  add(c, "a", 1, 3).request.throttle = 2;
  CHECK(plan_starts(c, kNow).starts.size() == 2);
}

TEST_CASE("schedule: a later job of the same name -> waits by singleton, another name starts") {
  Cluster c = cluster_of(4);
  add(c, "a", 1);
  add(c, "a", 1);
  add(c, "b", 1);
  begin(c, {1, 1}, {NodeName("n01")});
  const Plan plan = plan_starts(c, kNow);
  REQUIRE(plan.starts.size() == 1);
  CHECK(plan.starts[0].task == JobId{3, 1});
  CHECK(plan.reasons.at({2, 1}) == "Dependency");
}

TEST_CASE("schedule: nodes busy -> Resources, and no job overtakes") {
  Cluster c = cluster_of(3);
  add(c, "a", 2);
  add(c, "b", 2);
  add(c, "c", 1);
  begin(c, {1, 1}, {NodeName("n01"), NodeName("n02")});
  const Plan plan = plan_starts(c, kNow);
  CHECK(plan.starts.empty());
  CHECK(plan.reasons.at({2, 1}) == "Resources");
  CHECK(plan.reasons.at({3, 1}) == "Priority");
}

TEST_CASE("schedule: nodes away -> ReqNodeNotAvail names them, others overtake") {
  Cluster c = cluster_of(3);
  c.nodes.at(NodeName("n02")).health = Health::Down;
  c.nodes.at(NodeName("n03")).health = Health::Drain;
  add(c, "a", 2);
  add(c, "b", 1);
  const Plan plan = plan_starts(c, kNow);
  REQUIRE(plan.starts.size() == 1);
  CHECK(plan.starts[0].task == JobId{2, 1});
  CHECK(plan.reasons.at({1, 1}) == "ReqNodeNotAvail, UnavailableNodes:n[02-03]");
}

TEST_CASE("schedule: excluded nodes -> never used; all excluded -> Resources") {
  Cluster c = cluster_of(3);
  Job& job = add(c, "a", 2);
  job.request.exclude = {NodeName("n01")};
  CHECK(plan_starts(c, kNow).starts.at(0).nodes == std::vector{NodeName("n02"), NodeName("n03")});
  job.request.exclude = {NodeName("n01"), NodeName("n02")};
  CHECK(plan_starts(c, kNow).reasons.at({1, 1}) == "Resources");
}

TEST_CASE(
    "schedule: begin in the future -> BeginTime and when to look again; held -> JobHeldUser") {
  Cluster c = cluster_of(2);
  add(c, "a", 1).begin = kNow + 5s;
  add(c, "b", 1);
  c.tasks.at({2, 1}).held = true;
  const Plan plan = plan_starts(c, kNow);
  CHECK(plan.starts.empty());
  CHECK(plan.reasons.at({1, 1}) == "BeginTime");
  CHECK(plan.reasons.at({2, 1}) == "JobHeldUser");
  CHECK(plan.next_begin == kNow + 5s);
  CHECK(plan_starts(c, kNow + 5s).starts.size() == 1);
}

TEST_CASE("schedule: afterany of an array -> waits for its last task") {
  Cluster c = cluster_of(4);
  add(c, "a", 1, 2);
  add(c, "b", 1).after = {JobId{1, 0}};
  add(c, "c", 1).after = {JobId{1, 1}};
  c.tasks.at({1, 1}).state = JobState::Failed;
  begin(c, {1, 2}, {NodeName("n01")});
  Plan plan = plan_starts(c, kNow);
  CHECK(plan.reasons.at({2, 1}) == "Dependency");
  REQUIRE(plan.starts.size() == 1);
  CHECK(plan.starts[0].task == JobId{3, 1});
  c.tasks.at({1, 2}).state = JobState::Cancelled;
  CHECK(plan_starts(c, kNow).starts.size() == 2);
}

TEST_CASE("begin time: every form -> its moment") {
  CHECK(*parse_begin("", kNow) == kNow);
  CHECK(*parse_begin("now", kNow) == kNow);
  CHECK(*parse_begin("now+90", kNow) == kNow + 90s);
  CHECK(*parse_begin("now+2hours", kNow) == kNow + 2h);
  CHECK(*parse_begin("now+1day", kNow) == kNow + 24h);
  CHECK(*parse_begin("+10min", kNow) == kNow + 10min);
  CHECK(*parse_begin("2023-11-14T22:13:30Z", kNow) == kNow + 10s);
  CHECK(*parse_begin("22:13:30Z", kNow) == kNow + 10s);
  CHECK(*parse_begin("22:13:10Z", kNow) == kNow - 10s + 24h);
  for (const char* bad : {"tomorrow", "now+", "now+-5", "now-5", "+99999999999999999999s",
                          "now+1parsec", "2023-13-45T00:00", "25:00", "now+2hours;rm"})
    CHECK_MESSAGE(!parse_begin(bad, kNow), bad);
}

TEST_CASE("dependency: afterany lists and singleton -> ids; others are refused") {
  const auto d = parse_dependency("afterany:12:13_2,singleton,afterany:5");
  REQUIRE(d);
  CHECK(d->singleton);
  CHECK(d->after == std::vector<JobId>{{12, 0}, {13, 2}, {5, 0}});
  CHECK(parse_dependency("")->after.empty());
  for (const char* bad : {"afterok:3", "afterany:", "afterany:x", "afterany:3_",
                          "afterany:3:", "afterany:0", "afterany:3_0", "afterany:3;4"})
    CHECK_MESSAGE(!parse_dependency(bad), bad);
}

TEST_CASE(
    "lifecycle: a node lost under no_kill -> fewer nodes, goes on, exit of the others counts") {
  Cluster c = cluster_of(3);
  add(c, "a", 2).request.no_kill = true;
  begin(c, {1, 1}, {NodeName("n01"), NodeName("n02")});
  Task& task = c.tasks.at({1, 1});
  CHECK(!lose_node(task, c.jobs.at(1), NodeName("n02")));
  CHECK(task.nodes == std::vector{NodeName("n01")});
  CHECK(!lose_node(task, c.jobs.at(1), NodeName("n03")));
  task.runs[0].phase = RunPhase::Ended;
  settle(task, c.jobs.at(1), kNow);
  CHECK(task.state == JobState::Completed);
}

TEST_CASE("lifecycle: batch host lost under no_kill -> RUNNING without a script until cancelled") {
  Cluster c = cluster_of(3);
  add(c, "a", 2).request.no_kill = true;
  begin(c, {1, 1}, {NodeName("n01"), NodeName("n02")});
  Task& task = c.tasks.at({1, 1});
  CHECK(!lose_node(task, c.jobs.at(1), NodeName("n01")));
  task.runs[1].phase = RunPhase::Ended;
  settle(task, c.jobs.at(1), kNow);
  CHECK(task.state == JobState::Running);
  begin_ending(task, EndCause::Cancelled, kNow);
  settle(task, c.jobs.at(1), kNow);
  CHECK(task.state == JobState::Cancelled);
}

TEST_CASE("lifecycle: signal 9 against exit 3 -> the signal is the job's exit") {
  Cluster c = cluster_of(3);
  add(c, "a", 2);
  begin(c, {1, 1}, {NodeName("n01"), NodeName("n02")});
  Task& task = c.tasks.at({1, 1});
  task.runs[0] = {NodeName("n01"), RunPhase::Ended, 3, 0, ""};
  task.runs[1] = {NodeName("n02"), RunPhase::Ended, 0, SIGKILL, "lost"};
  settle(task, c.jobs.at(1), kNow);
  CHECK(task.state == JobState::Failed);
  CHECK(task.exit_code == 0);
  CHECK(task.signal == SIGKILL);
}

TEST_CASE(
    "lifecycle: too many ended tasks -> the jobs that ended first go, whole, a live one never") {
  Cluster c = cluster_of(3);
  const auto end = [&c](std::uint64_t job, std::uint32_t tasks, Duration at) {
    add(c, "a", 1, tasks);
    for (std::uint32_t t = 1; t <= tasks; ++t) {
      c.tasks.at({job, t}).state = JobState::Completed;
      c.tasks.at({job, t}).ended = kNow + at;
    }
  };
  end(1, 1, 9s);  // long, and ended just now
  end(2, 2, 1s);
  end(3, 2, 2s);
  end(4, 2, 3s);
  c.tasks.at({3, 2}).state = JobState::Running;
  CHECK(jobs_to_forget(c, 6).empty());
  CHECK(jobs_to_forget(c, 5) == std::vector<std::uint64_t>{2});
  CHECK(jobs_to_forget(c, 3) == std::vector<std::uint64_t>{2, 4});
  CHECK(jobs_to_forget(c, 0) == std::vector<std::uint64_t>{2, 4, 1});
}

TEST_CASE("signal names: with and without SIG, numbers -> the number; else 0") {
  CHECK(signal_number("USR1") == SIGUSR1);
  CHECK(signal_number("SIGTERM") == SIGTERM);
  CHECK(signal_number("12") == 12);
  CHECK(signal_number("NOPE") == 0);
  CHECK(signal_number("") == 0);
}
