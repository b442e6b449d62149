// Switch files as an agent judges them while the daemon is silent.
#include "worker/agent/control_watch.hpp"

#include <algorithm>
#include <functional>
#include <future>
#include <mutex>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "common/os/files.hpp"
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
    const auto look = look_at_switches(folder.path);
    if (!look) return fail(look.error());
    return look->find(verb);
  }
  [[nodiscard]] std::string refusal(const std::string& verb) const {
    const auto seen = read(verb);
    REQUIRE_FALSE(seen);
    return seen.error().what;
  }
};

// What a ControlWatch says; its threads may speak after the test.
class WatchHeard : public std::enable_shared_from_this<WatchHeard> {
 public:
  ControlSink sink() {
    ControlSink sink;
    const auto self = shared_from_this();
    sink.control = [self](const wire::Control& control) {
      const std::scoped_lock lock(self->mutex_);
      self->saves_ = control.save;
    };
    sink.left = [self](const SwitchSeen& seen) {
      const std::scoped_lock lock(self->mutex_);
      self->left_.push_back(seen);
    };
    sink.notice = [self](const std::string& text) {
      const std::scoped_lock lock(self->mutex_);
      self->notices_.push_back(text);
    };
    return sink;
  }
  std::uint64_t saves() {
    const std::scoped_lock lock(mutex_);
    return saves_;
  }
  std::size_t left() {
    const std::scoped_lock lock(mutex_);
    return left_.size();
  }
  SwitchSeen first_left() {
    const std::scoped_lock lock(mutex_);
    return left_.at(0);
  }
  std::vector<std::string> notices() {
    const std::scoped_lock lock(mutex_);
    return notices_;
  }

 private:
  std::mutex mutex_;
  std::uint64_t saves_ = 0;
  std::vector<SwitchSeen> left_;
  std::vector<std::string> notices_;
};

bool eventually(const std::function<bool()>& what, Duration limit = 10s) {
  for (const Instant end = monotonic_now() + limit; monotonic_now() < end;) {
    if (what()) return true;
    std::this_thread::sleep_for(20ms);
  }
  return what();
}

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
  CHECK_FALSE(look_at_switches(folder.path));
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

TEST_CASE("agent's switch: a colleague's KILL beside ours -> both are seen, ours first") {
  if (!is_root()) return;
  const Run run(03770);
  run.of_member("KILL");
  run.of_member("Kill");
  run.folder.write("switch/kill", "mine");
  REQUIRE(::chown(run.path("kill").c_str(), 0, kMember) == 0);
  const auto look = look_at_switches(run.folder.path);
  REQUIRE(look);
  REQUIRE(look->seen.size() == 3);
  CHECK(look->seen[0].name == "kill");
  CHECK(look->seen[0].owner == 0);
}

TEST_CASE(
    "agent's switch: a look that never ends -> control.json is read, and one notice says so") {
  const Run run;
  auto heard = std::make_shared<WatchHeard>();
  std::promise<void> never;
  auto looks = std::make_shared<std::atomic<int>>(0);
  const auto stuck = [looks,
                      end = never.get_future().share()](const std::string&) -> Result<SwitchLook> {
    ++*looks;
    end.wait();
    return SwitchLook{};
  };
  auto watch = std::make_unique<ControlWatch>(run.folder.path, heard->sink(), stuck, 300ms);
  for (std::uint64_t save = 1; save <= 3; ++save) {
    wire::Control control;
    control.save = save;
    REQUIRE(os::replace_file(run.folder / "control.json", to_json_text(control),
                             os::Durability::Cached, 0600));
    REQUIRE(eventually([&] { return heard->saves() == save; }));
  }
  REQUIRE(eventually([&] { return !heard->notices().empty(); }));
  std::this_thread::sleep_for(700ms);
  const auto notices = heard->notices();
  std::string all;
  for (const std::string& notice : notices) all += notice + "\n";
  CAPTURE(all);
  CHECK(std::ranges::count_if(notices, [&](const std::string& notice) {
          return notice.find(run.folder / "switch: the folder has not answered for") == 0;
        }) == 1);
  CHECK(*looks == 1);
  const Instant before = monotonic_now();
  watch.reset();
  CHECK(monotonic_now() - before < 1s);
  never.set_value();
}

TEST_CASE(
    "agent's switch: ours, while a colleague changes his all the time -> due in two seconds") {
  const Run run;
  auto heard = std::make_shared<WatchHeard>();
  std::atomic<int> looks = 0;
  const auto look = [&looks](const std::string&) -> Result<SwitchLook> {
    const std::string changed = std::to_string(++looks);
    return SwitchLook{{{"kill", "kill", 0, "1", "root", "mine"},
                       {"kill", "KILL", kMember, changed, "daemon", "his"}},
                      {}};
  };
  const ControlWatch watch(run.folder.path, heard->sink(), look);
  REQUIRE(eventually([&] { return heard->left() > 0; }, 8s));
  CHECK(heard->first_left().by == "root");
}

TEST_CASE("agent's switch: a refused file that changes all the time -> ten notices a minute") {
  const Run run;
  auto heard = std::make_shared<WatchHeard>();
  auto watch = std::make_unique<ControlWatch>(run.folder.path, heard->sink());
  for (std::size_t i = 0; i < 25; ++i) {
    for (const char* name : {"switch/kill", "switch/stop", "switch/save"})
      run.folder.write(name, std::string(65537 + i, 'x'));
    std::this_thread::sleep_for(200ms);
  }
  watch.reset();
  CHECK(heard->notices().size() == 10);
}
