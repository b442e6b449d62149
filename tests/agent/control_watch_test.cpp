// Switch files as an agent judges them while the daemon is silent.
#include "worker/agent/control_watch.hpp"

#include <mutex>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "common/os/own_files.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using namespace stoker::agent;
using stoker::testing::Folder;

namespace {

constexpr uid_t kMember = 1;  // of every Debian: "daemon", alone in the group "daemon"

// A run directory with switch/ as stokerd makes it: of a group, or of the owner alone.
struct Run {
  Folder folder;
  explicit Run(mode_t mode = 0700) {
    const std::string path = folder / "switch";
    REQUIRE(::mkdir(path.c_str(), 0700) == 0);
    if (mode != 0700) REQUIRE(::chown(path.c_str(), static_cast<uid_t>(-1), kMember) == 0);
    REQUIRE(::chmod(path.c_str(), mode) == 0);
  }
  [[nodiscard]] std::string path(const std::string& name) const {
    return folder / "switch/" + name;
  }
  void of_member(const std::string& name, gid_t group = kMember) const {
    folder.write("switch/" + name, R"({"by": "the boss", "reason": "enough"})");
    REQUIRE(::chown(path(name).c_str(), kMember, group) == 0);
  }
  [[nodiscard]] Result<std::optional<SwitchSeen>> read(const std::string& verb) const {
    return read_switch(folder.path, verb);
  }
  [[nodiscard]] std::string refusal(const std::string& verb) const {
    const auto seen = read(verb);
    REQUIRE_FALSE(seen);
    return seen.error().what;
  }
};

bool is_root() {
  if (::geteuid() == 0) return true;
  std::puts("SKIPPED: only root can give files away");
  return false;
}

}  // namespace

TEST_CASE("agent's switch: ours -> obeyed in our name, not in that which its text claims") {
  const Run run;
  run.folder.write("switch/KILL", R"({"by": "the boss", "reason": "a\u001b[2Jb"})");
  const auto seen = run.read("kill");
  REQUIRE((seen && *seen));
  CHECK((*seen)->by == os::user_name_of(::geteuid()));
  CHECK((*seen)->reason == "a [2Jb");
  CHECK_FALSE(run.read("stop")->has_value());
}

TEST_CASE("agent's switch: a second name -> refused, as by the daemon") {
  const Run run;
  run.folder.write("mine", "");
  std::filesystem::create_hard_link(run.folder / "mine", run.path("kill"));
  CHECK(run.refusal("kill").find("several names") != std::string::npos);
}

TEST_CASE("agent's switch: a member's -> obeyed; moved here from elsewhere -> refused") {
  if (!is_root()) return;
  const Run run(03770);
  run.of_member("stop");
  const auto seen = run.read("stop");
  REQUIRE((seen && *seen));
  CHECK((*seen)->by == "a member of the group of the folder (by a file of daemon)");
  run.of_member("kill", 4711);
  CHECK(run.refusal("kill").find("moved here") != std::string::npos);
}

TEST_CASE("agent's switch: a former member's, where the group may not write any more -> refused") {
  if (!is_root()) return;
  const Run run(03750);
  run.of_member("kill");
  CHECK(run.refusal("kill").find("another user") != std::string::npos);
}

TEST_CASE("agent's switch: a link in the folder's place -> refused") {
  const Folder folder, elsewhere;
  elsewhere.write("kill", "");
  std::filesystem::create_symlink(elsewhere.path, folder / "switch");
  CHECK_FALSE(read_switch(folder.path, "kill"));
}

TEST_CASE("agent's switch: behind 20,000 other names -> found, and the look stays short") {
  const Run run;
  for (int i = 0; i < 20'000; ++i)
    run.folder.write("switch/" + std::string(100, 'a') + std::to_string(i), "");
  run.folder.write("switch/kill", "now");
  const Instant before = monotonic_now();
  for (int i = 0; i < 10; ++i) CHECK(run.read("kill")->has_value());
  CHECK(monotonic_now() - before < 3s);
}

TEST_CASE("agent's switch: a refused file that changes all the time -> ten notices a minute") {
  const Run run;
  std::mutex mutex;
  std::size_t notices = 0;
  ControlSink sink;
  sink.control = [](const wire::Control&) {};
  sink.left = [](const SwitchSeen&) {};
  sink.notice = [&](const std::string&) {
    const std::scoped_lock lock(mutex);
    ++notices;
  };
  const auto count = [&] {
    const std::scoped_lock lock(mutex);
    return notices;
  };
  auto watch = std::make_unique<ControlWatch>(run.folder.path, std::move(sink));
  for (std::size_t i = 0; i < 25; ++i) {
    for (const char* name : {"switch/kill", "switch/stop", "switch/save"})
      run.folder.write(name, std::string(65537 + i, 'x'));
    std::this_thread::sleep_for(200ms);
  }
  watch.reset();
  std::this_thread::sleep_for(500ms);  // its thread ends by itself
  CHECK(count() == 10);
}
