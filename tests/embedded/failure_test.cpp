// What dies: nodes, the scheduler process, node processes; and what must not survive them.
#include <csignal>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <set>
#include <sqlite3.h>
#include <thread>
#include <unistd.h>

#include "cluster_fixture.hpp"
#include "common/os/files.hpp"
#include "embedded/node_folder.hpp"

using namespace stoker;
using namespace stoker::embedded;
using namespace stoker::embedded::testing;
using core::JobState;

namespace {

// An agent with a grandchild that left its session and its parents.
constexpr const char* kDeepTree =
    "(setsid bash -c 'sleep 60 & disown; sleep 60' &) ; (sleep 60 &) ; touch up.$SLURMD_NODENAME; "
    "sleep 60";

}  // namespace

TEST_CASE("failure: node killed, no hold -> all its processes at once, job NODE_FAIL, node DOWN") {
  ClusterFixture c;
  SubmitJob job = c.script(kDeepTree);
  job.nodes = 2;
  const JobId id = c.submit(job);
  REQUIRE(c.eventually(
      [&] { return os::exists(c.path() + "/up.n01") && os::exists(c.path() + "/up.n02"); }));
  c.must(KillNode{NodeName("n02")});
  CHECK(!pid_alive(c.node_pid({id.job, 1}, "n02")));
  CHECK(c.node("n02").state == "DOWN");
  REQUIRE(c.reaches({id.job, 1}, JobState::NodeFail));
  CHECK(c.live_processes() == 0);
  CHECK(c.task({id.job, 1}).nodes == std::vector{NodeName("n01")});
  const JobId next = c.submit(c.script("true"));
  REQUIRE(c.reaches({next.job, 1}, JobState::Completed));
  c.must(ResumeNode{NodeName("n02")});
  CHECK(c.node("n02").state == "IDLE");
}

TEST_CASE("failure: node killed, held for spares -> job is still running with fewer nodes") {
  ClusterFixture c;
  SubmitJob job = c.script("touch up.$SLURMD_NODENAME; while [ ! -e go ]; do sleep 0.02; done");
  job.nodes = 3;
  job.no_kill = true;
  const JobId id = c.submit(job);
  REQUIRE(c.eventually(
      [&] { return os::exists(c.path() + "/up.n01") && os::exists(c.path() + "/up.n03"); }));
  c.must(KillNode{NodeName("n03")});
  const core::JobSeen seen = c.task({id.job, 1});
  CHECK(seen.state == JobState::Running);
  CHECK(seen.nodes == std::vector{NodeName("n01"), NodeName("n02")});
  REQUIRE(os::replace_file(c.path() + "/go", "", os::Durability::Cached));
  CHECK(c.reaches({id.job, 1}, JobState::Completed));
}

TEST_CASE(
    "failure: batch host killed, held for spares -> RUNNING without a script, cancel ends it") {
  ClusterFixture c;
  SubmitJob job = c.script("touch up.$SLURMD_NODENAME; while [ ! -e go ]; do sleep 0.02; done");
  job.nodes = 2;
  job.no_kill = true;
  const JobId id = c.submit(job);
  REQUIRE(c.eventually(
      [&] { return os::exists(c.path() + "/up.n01") && os::exists(c.path() + "/up.n02"); }));
  c.must(KillNode{NodeName("n01")});
  REQUIRE(os::replace_file(c.path() + "/go", "", os::Durability::Cached));
  REQUIRE(c.eventually([&] { return c.live_processes() == 0; }));
  CHECK(!c.eventually([&] { return c.task({id.job, 1}).state == JobState::Completed; }, 200ms));
  CHECK(c.task({id.job, 1}).state == JobState::Running);
  c.must(CancelJob{job.token, id, false, true});
  CHECK(c.reaches({id.job, 1}, JobState::Cancelled));
}

TEST_CASE("failure: scheduler killed -9 -> job runs on, the next call finds it and its end") {
  ClusterFixture c;
  const JobId id = c.submit(c.script("touch up; while [ ! -e go ]; do sleep 0.02; done; exit 5"));
  REQUIRE(c.eventually([&] { return os::exists(c.path() + "/up"); }));
  const pid_t node = c.node_pid({id.job, 1}, "n01");
  const pid_t first = c.scheduler_pid();
  REQUIRE(first > 0);
  ::kill(first, SIGKILL);
  REQUIRE(c.eventually([&] { return !pid_alive(first); }));
  CHECK(c.task({id.job, 1}).state == JobState::Running);
  CHECK(c.scheduler_pid() != first);
  CHECK(pid_alive(node));
  ::kill(c.scheduler_pid(), SIGKILL);
  REQUIRE(os::replace_file(c.path() + "/go", "", os::Durability::Cached));
  REQUIRE(c.eventually([&] { return !pid_alive(node); }));  // it ends unwatched
  REQUIRE(c.reaches({id.job, 1}, JobState::Failed));
  CHECK(c.task({id.job, 1}).exit_code == 5);
}

TEST_CASE("failure: scheduler killed -9 again and again -> each task runs exactly once, in order") {
  ClusterFixture c;
  SubmitJob job = c.script("echo $SLURM_ARRAY_TASK_ID >> order; sleep 0.03");
  job.array_tasks = 12;
  const JobId id = c.submit(job);
  for (int i = 0; i < 25; ++i) {
    (void)ask(c.options, Observe{});
    if (const pid_t pid = c.scheduler_pid(); pid > 0) ::kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 5 * 4));
  }
  REQUIRE(c.reaches({id.job, 12}, JobState::Completed));
  CHECK(c.read("order") == "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n");
}

TEST_CASE("failure: node process killed -9 -> its whole tree goes, job FAILED by signal 9") {
  ClusterFixture c;
  const JobId id = c.submit(c.script(kDeepTree));
  REQUIRE(c.eventually([&] { return os::exists(c.path() + "/up.n01"); }));
  REQUIRE(c.eventually([&] { return c.live_processes() >= 4; }));
  ::kill(c.node_pid({id.job, 1}, "n01"), SIGKILL);
  REQUIRE(c.reaches({id.job, 1}, JobState::Failed));
  CHECK(c.task({id.job, 1}).signal == SIGKILL);
  CHECK(c.live_processes() == 0);
}

TEST_CASE("failure: node process stopped -> the wall still ends it") {
  ClusterFixture c;
  const JobId id = c.submit(c.script("sleep 60"));
  REQUIRE(c.reaches({id.job, 1}, JobState::Running));
  REQUIRE(c.eventually([&] { return c.node_pid({id.job, 1}, "n01") > 0; }));
  ::kill(c.node_pid({id.job, 1}, "n01"), SIGSTOP);
  c.must(KillNode{NodeName("n01")});
  CHECK(c.reaches({id.job, 1}, JobState::NodeFail));
}

TEST_CASE("failure: agent leaves children behind -> they are gone when the job is") {
  ClusterFixture c;
  const JobId id = c.submit(
      c.script("(setsid sleep 60 &); (env -i setsid /bin/sleep 61.5 &); nohup sleep 60 & exit 0"));
  REQUIRE(c.reaches({id.job, 1}, JobState::Completed));
  CHECK(c.live_processes() == 0);
  bool escaped = false;
  const auto names = os::list_directory("/proc");
  REQUIRE(names);
  for (const auto& name : *names)
    if (const auto line = os::read_file("/proc/" + name + "/cmdline", 4096); line)
      escaped |= line->find("61.5") != std::string::npos;
  CHECK(!escaped);
}

TEST_CASE("failure: two clusters of three nodes -> six disjoint port ranges") {
  ClusterFixture a, b;
  std::set<std::string> ranges;
  for (ClusterFixture* c : {&a, &b}) {
    SubmitJob job = c->script("echo $STOKER_PORT_RANGE > ports.$SLURMD_NODENAME; sleep 60");
    job.nodes = 3;
    c->submit(job);
  }
  for (ClusterFixture* c : {&a, &b})
    for (const char* node : {"n01", "n02", "n03"}) {
      const std::string file = std::string("ports.") + node;
      REQUIRE(c->eventually([&] { return c->read(file).size() == 12; }));
      ranges.insert(c->read(file));
    }
  CHECK(ranges.size() == 6);
}

TEST_CASE("failure: accounting after the scheduler left -> kept, ids go on") {
  ClusterFixture c;
  const JobId id = c.submit(c.script("exit 4"));
  REQUIRE(c.reaches({id.job, 1}, JobState::Failed));
  c.must(Shutdown{});
  REQUIRE(c.eventually([&] { return c.scheduler_pid() == 0; }));
  CHECK(c.task({id.job, 1}).exit_code == 4);
  CHECK(c.submit(c.script("true")).job > id.job);
}

TEST_CASE(
    "failure: database of a newer version, or damaged -> an error that says so, no empty view") {
  ClusterFixture c;
  c.must(Observe{});
  c.must(Shutdown{});
  REQUIRE(c.eventually([&] { return c.scheduler_pid() == 0; }));
  const std::string path = c.options.folder + "/cluster.db";
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
  REQUIRE(sqlite3_exec(db, "PRAGMA user_version=99", nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(db);
  LocalScheduler port(c.options);
  const auto newer = port.observe({});
  REQUIRE(!newer);
  CHECK_MESSAGE(newer.error().message().find("version 99") != std::string::npos,
                newer.error().message());
  for (const auto& entry : std::filesystem::directory_iterator(c.options.folder))
    if (entry.path().string().rfind(path, 0) == 0) std::filesystem::remove(entry.path());
  std::ofstream(path) << std::string(8192, 'x');
  const auto damaged = port.observe({});
  REQUIRE(!damaged);
  CHECK_MESSAGE(damaged.error().message().find("not a database") != std::string::npos,
                damaged.error().message());
  std::filesystem::remove(path);
}

TEST_CASE("failure: garbage on the socket -> refused, the cluster goes on") {
  ClusterFixture c;
  const JobId id = c.submit(c.script("sleep 60"));
  CHECK(c.refusal(DrainNode{NodeName("../n01"), "x"}).find("Invalid node") != std::string::npos);
  CHECK(c.refusal(RequeueJob{{999, 1}}).find("Invalid job") != std::string::npos);
  CHECK(c.reaches({id.job, 1}, JobState::Running));
}

TEST_CASE(
    "failure: the cluster's folder is another user's, or others may write it -> nothing runs") {
  ClusterFixture c;
  REQUIRE(std::filesystem::create_directories(c.options.folder));
  std::filesystem::permissions(c.options.folder, std::filesystem::perms::all);
  CHECK(c.refusal(Observe{{"run"}}).find("others may write it") != std::string::npos);
  std::filesystem::permissions(c.options.folder, std::filesystem::perms::owner_all);
  if (::geteuid() == 0) {  // to make it another user's
    REQUIRE(::chown(c.options.folder.c_str(), 54321, 54321) == 0);
    CHECK(c.refusal(Observe{{"run"}}).find("belongs to uid 54321") != std::string::npos);
    CHECK(std::filesystem::is_empty(c.options.folder));
    REQUIRE(::chown(c.options.folder.c_str(), 0, 0) == 0);
  }
  c.must(Observe{{"run"}});
}

TEST_CASE("NodeFolder: another user wrote what is to run, or owns the folder -> refused") {
  if (::geteuid() != 0) return;  // to make it another user's
  ClusterFixture c;
  const NodeFolder folder(c.path() + "/n01");
  NodeSpec spec;
  spec.argv = {"/bin/true"};
  const std::string file = folder.path() + "/spec.json";
  REQUIRE(folder.write_spec(spec));
  REQUIRE(folder.read_spec());
  REQUIRE(::chown(file.c_str(), 54321, 54321) == 0);
  CHECK_FALSE(folder.read_spec());
  REQUIRE(::chown(file.c_str(), 0, 0) == 0);
  REQUIRE(::chown(folder.path().c_str(), 54321, 54321) == 0);
  CHECK_FALSE(folder.read_spec());
  CHECK_FALSE(folder.write_spec(spec));
}
