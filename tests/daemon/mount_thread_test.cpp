// A mount's thread that hangs in a folder of others: the next one goes on without that part.
#include "daemon/loop/mount_thread.hpp"

#include <algorithm>
#include <array>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <future>

#include "daemon/ports/os_ports.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using namespace stoker::daemon;

namespace {

Duration at_once(const RunPart&) {
  return 0s;
}
Duration in_an_hour(const RunPart&) {
  return 1h;
}

// Work that does not come back before it is let go.
struct Hang {
  std::promise<void> began, go;
  std::shared_future<void> let_go = go.get_future().share();

  std::function<void()> work() {
    return [this] {
      began.set_value();
      let_go.wait();
    };
  }
};

class Site {
 public:
  explicit Site(const char* name) {
    std::filesystem::create_directories(folder / "switch");
    policy.run = RunName(name);
    policy.directory = folder.path;
  }
  void kill_file() const { folder.write("switch/kill", "{}"); }

  stoker::testing::Folder folder;
  core::RunPolicy policy;
};

class Mount {
 public:
  Mount()
      : thread(clock, [this](std::vector<core::Input> inputs) {
          const std::scoped_lock lock(mutex);
          for (auto& input : inputs) seen.push_back(std::move(input));
        }) {}

  template <class Body>
  [[nodiscard]] std::size_t count() const {
    const std::scoped_lock lock(mutex);
    return static_cast<std::size_t>(std::count_if(seen.begin(), seen.end(), [](const auto& input) {
      return std::holds_alternative<Body>(input.body);
    }));
  }
  // Until the thread is at work that does not come back.
  void enter(Hang& hang, const RunPart& part = {}) {
    thread.post(hang.work(), part);
    hang.began.get_future().wait();
  }
  // Until the thread has done what was posted before.
  void settle() {
    std::promise<void> done;
    thread.post([&done] { done.set_value(); });
    done.get_future().wait();
  }
  template <class Condition>
  static bool soon(Condition condition) {
    for (int i = 0; i < 1000 && !condition(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return condition();
  }

  EngineClock clock{std::nullopt};
  mutable std::mutex mutex;
  std::vector<core::Input> seen;
  MountThread thread;
};

}  // namespace

TEST_CASE("mount thread: hangs in the switch folder of one run -> all else is read, then it too") {
  Site one("one"), other("other");
  Hang hang;
  Mount mount;
  const RunPart switches{RunName("one"), watch::Part::Switches};
  mount.enter(hang, switches);
  bool waiting_job = false, dropped_job = false;
  mount.thread.post([&] { waiting_job = true; });
  mount.thread.post([&] { dropped_job = true; }, switches);

  CHECK_FALSE(mount.thread.relieve(in_an_hour));  // not for so long yet
  const auto by = mount.thread.relieve(at_once);
  REQUIRE(by);
  CHECK(by->part == switches);
  CHECK(mount.thread.is_passed_over(switches));
  one.kill_file();
  other.kill_file();
  mount.thread.watch(one.policy);
  mount.thread.watch(other.policy);
  CHECK(Mount::soon([&] { return mount.count<core::OperatorAsked>() == 1; }));
  CHECK(waiting_job);
  CHECK_FALSE(dropped_job);
  CHECK(MountShift::left_behind());

  hang.go.set_value();
  CHECK(Mount::soon([&] { return mount.count<core::OperatorAsked>() == 2; }));
  CHECK_FALSE(mount.thread.is_passed_over(switches));
  CHECK(Mount::soon([] { return !MountShift::left_behind(); }));
}

TEST_CASE(
    "mount thread: hangs in one run's own files -> the other run is read, then this one too") {
  Site one("one"), other("other");
  Hang hang;
  Mount mount;
  const RunPart own{RunName("one"), watch::Part::Own};
  mount.enter(hang, own);
  CHECK_FALSE(mount.thread.relieve(in_an_hour));
  REQUIRE(mount.thread.relieve(at_once));
  CHECK(mount.thread.is_passed_over(own));
  one.kill_file();
  other.kill_file();
  mount.thread.watch(one.policy);
  mount.thread.watch(other.policy);
  CHECK(Mount::soon([&] { return mount.count<core::OperatorAsked>() == 1; }));

  hang.go.set_value();
  CHECK(Mount::soon([&] { return !mount.thread.is_passed_over(own); }));
  mount.thread.watch(one.policy);
  CHECK(Mount::soon([&] { return mount.count<core::OperatorAsked>() == 2; }));
}

TEST_CASE("mount thread: hangs in the own files of many runs -> so does the file system: no more") {
  std::array<Hang, 65> hangs;
  Mount mount;
  std::size_t passed = 0;
  for (std::size_t i = 0; i < hangs.size(); ++i) {
    mount.enter(hangs[i], {RunName(fmt::format("r{}", i)), watch::Part::Own});
    passed += mount.thread.relieve(at_once) ? 1 : 0;
  }
  CHECK(passed == 64);
  REQUIRE(mount.thread.at());
  CHECK(mount.thread.at()->first.run == RunName("r64"));
  for (Hang& hang : hangs) hang.go.set_value();
  CHECK(Mount::soon([] { return !MountShift::left_behind(); }));
}

TEST_CASE("mount thread: hangs in the daemon's own work -> no thread takes over") {
  Hang hang;
  Mount mount;
  mount.enter(hang);
  CHECK_FALSE(mount.thread.relieve(at_once));
  hang.go.set_value();
  mount.settle();
  CHECK(Mount::soon([&] { return mount.thread.busy_for() == Duration::zero(); }));
}

TEST_CASE(
    "mount thread: what is published hangs -> jobs of it that wait are dropped, not done late") {
  Hang hang;
  Mount mount;
  const RunPart published{RunName("one"), watch::Part::Published};
  mount.enter(hang, published);
  bool late = false;
  mount.thread.post([&] { late = true; }, published);
  REQUIRE(mount.thread.relieve(at_once));
  hang.go.set_value();
  CHECK(Mount::soon([&] { return !mount.thread.is_passed_over(published); }));
  mount.settle();
  CHECK_FALSE(late);
}

TEST_CASE("mount thread: a new thread -> knows generations and followers of the one before") {
  Site site("script");
  site.policy.train.batch_script = "script.slurm";
  Hang hang;
  Mount mount;
  mount.thread.set_generation(site.policy.run, Generation(3));
  mount.enter(hang, {site.policy.run, watch::Part::Logs});
  REQUIRE(mount.thread.relieve(at_once));
  mount.thread.watch(site.policy);
  bool flushed = false;
  mount.thread.flush([&](const std::vector<core::Input>&) { flushed = true; });
  mount.settle();
  CHECK(flushed);
  CHECK(mount.thread.is_passed_over({site.policy.run, watch::Part::Logs}));
  hang.go.set_value();
  CHECK(Mount::soon([] { return !MountShift::left_behind(); }));
}

TEST_CASE("mount thread: stopped where it does not come back, twice -> left behind, and no end") {
  Hang hang;
  {
    Mount mount;
    mount.enter(hang);
    mount.thread.stop();  // waits for ten seconds
    mount.thread.stop();
    CHECK(MountShift::left_behind());
  }
  hang.go.set_value();
  CHECK(Mount::soon([] { return !MountShift::left_behind(); }));
}
