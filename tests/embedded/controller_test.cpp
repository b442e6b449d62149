// The scheduler's mind without its process, or beside it: what is durable when, and what is kept.
#include "embedded/controller.hpp"

#include <algorithm>
#include <csignal>
#include <doctest/doctest.h>
#include <filesystem>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/wait.h>

#include "cluster_fixture.hpp"
#include "common/os/files.hpp"
#include "embedded/socket.hpp"

using namespace stoker;
using namespace stoker::embedded;
using namespace stoker::embedded::testing;
using core::JobState;

namespace {

// A scheduler without a process: dropping it is its kill -9.
struct Mind {
  std::unique_ptr<Store> store;
  std::unique_ptr<Controller> controller;

  explicit Mind(const LocalOptions& options) {
    auto opened = Store::open(options.folder);
    REQUIRE(opened);
    store = std::move(*opened);
    auto cluster = store->load();
    REQUIRE(cluster);
    const std::string id = cluster->id;
    NodeRunner runner(options.folder, id, {options.scheduler_command.front(), "local-node"});
    controller = std::make_unique<Controller>(options.folder, *store, std::move(*cluster),
                                              std::move(runner));
  }
  Answer ask(const Request& request) { return controller->handle(request, 0, wall_now()); }
  JobState turn() {  // of the only task, after a turn
    controller->advance(wall_now());
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    return ask(Observe{}).jobs.front().state;
  }
};

std::ptrdiff_t pidfds_of(pid_t pid) {
  std::ptrdiff_t count = 0;
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::error_code gone;
    const std::string is = std::filesystem::read_symlink(entry, gone).string();
    count += is.find("pidfd") != std::string::npos ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("controller: cancel is durable before TERM -> a scheduler killed in between goes on") {
  ClusterFixture c;
  REQUIRE(make_folder(c.options.folder));
  auto mind = std::make_unique<Mind>(c.options);
  const SubmitJob job = c.script("touch up; sleep 60");
  const JobId id{1, 1};
  REQUIRE(mind->ask(job).good);
  REQUIRE(c.eventually([&] { return mind->turn() == JobState::Running; }));
  REQUIRE(c.eventually([&] { return mind->turn() == JobState::Running && c.node_pid(id, "n01"); }));
  REQUIRE(c.eventually([&] { return os::exists(c.path() + "/up"); }));
  mind->turn();
  REQUIRE(mind->ask(CancelJob{job.token, id, false, true}).good);
  mind.reset();
  ::poll(nullptr, 0, 200);
  CHECK(c.live_processes() > 0);  // nothing has been asked to leave
  Mind next(c.options);
  CHECK(c.eventually([&] { return next.turn() == JobState::Cancelled; }, 5s));
  CHECK(c.live_processes() == 0);
}

TEST_CASE("controller: ended in time, seen after its time limit -> COMPLETED, not TIMEOUT") {
  ClusterFixture c;
  SubmitJob job = c.script("touch up; while [ ! -e go ]; do sleep 0.02; done");
  job.time_limit = 2s;
  const JobId id = c.submit(job);
  REQUIRE(c.eventually([&] { return os::exists(c.path() + "/up"); }));
  const WallTime wall = *c.task({id.job, 1}).ends_at;
  const pid_t node = c.node_pid({id.job, 1}, "n01");
  ::kill(c.scheduler_pid(), SIGKILL);
  REQUIRE(os::replace_file(c.path() + "/go", "", os::Durability::Cached));
  REQUIRE(c.eventually([&] { return !pid_alive(node); }));
  REQUIRE(wall_now() < wall);
  ::poll(nullptr, 0, static_cast<int>((wall - wall_now()) / 1ms) + 50);
  CHECK(c.reaches({id.job, 1}, JobState::Completed, 5s));
}

TEST_CASE("controller: nodes die below tasks -> the scheduler keeps no descriptor of them") {
  ClusterFixture c;
  for (int i = 0; i < 3; ++i) {
    const JobId id = c.submit(c.script("sleep 60"));
    REQUIRE(c.eventually([&] { return c.node_pid({id.job, 1}, "n01") > 0; }));
    c.must(KillNode{NodeName("n01")});
    REQUIRE(c.reaches({id.job, 1}, JobState::NodeFail));
    c.must(ResumeNode{NodeName("n01")});
  }
  CHECK(c.eventually([&] { return pidfds_of(c.scheduler_pid()) == 0; }, 1s));  // idle, it leaves
}
