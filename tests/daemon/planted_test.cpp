// Names that a colleague put into a folder while it was open to the group: none is followed, and no
// folder that one leads to is opened to others.
#include <doctest/doctest.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/loop/daemon.hpp"
#include "daemon/loop/foundation.hpp"
#include "tests/daemon/fixtures.hpp"

using namespace stoker;
using namespace stoker::daemon;
using namespace stoker::daemon::test;

namespace fs = std::filesystem;

namespace {

constexpr uid_t kMate = 1;  // of every Debian: "daemon"
constexpr const char* kGroup = "daemon";

struct Shared : Folder {
  std::string run = *this / "run", secret = *this / "private";

  Shared() {
    for (const std::string& folder : {run, secret}) REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
    REQUIRE(::chmod(run.c_str(), 02770) == 0);
  }
  [[nodiscard]] mode_t mode_of_secret() const {
    struct stat info {};
    REQUIRE(::stat(secret.c_str(), &info) == 0);
    return info.st_mode & 07777;
  }
  [[nodiscard]] core::RunPolicy policy() const {
    core::RunPolicy policy;
    policy.run = RunName("hello");
    policy.directory = run;
    policy.group = kGroup;
    return policy;
  }
  static void give(const std::string& path) { REQUIRE(::lchown(path.c_str(), kMate, kMate) == 0); }
};

bool is_root() {
  if (::geteuid() == 0) return true;
  MESSAGE("skipped: to make files of other users needs root");
  return false;
}

}  // namespace

TEST_CASE("planted in a run directory: links and files of a colleague -> refused by name") {
  if (!is_root()) return;
  for (const char* name : {"checkpoints", "after", "stacks", "events.jsonl", "cache"}) {
    CAPTURE(name);
    const Shared shared;
    const std::string planted = shared.run + "/" + name;
    fs::create_symlink(shared.secret, planted);
    Shared::give(planted);
    const Status made = make_run_directory(shared.policy());
    REQUIRE_FALSE(made);
    CHECK(made.error().message().find(planted) != std::string::npos);
    CHECK(made.error().message().find("belongs to daemon") != std::string::npos);
    CHECK(shared.mode_of_secret() == 0700);
    // Before each submission what stoker itself uses is checked again.
    CHECK(close_run_directory(shared.policy()).has_value() == (name == std::string("cache")));
    fs::remove(planted);
    CHECK(make_run_directory(shared.policy()));
  }
}

TEST_CASE("planted in a run directory: the owner's own link to another disk -> kept as it is") {
  const Shared shared;
  fs::create_symlink(shared.secret, shared.run + "/checkpoints");
  core::RunPolicy policy = shared.policy();
  if (::geteuid() != 0) policy.group.clear();
  REQUIRE(make_run_directory(policy));
  CHECK(fs::is_symlink(shared.run + "/checkpoints"));
  CHECK(shared.mode_of_secret() == 0700);
}

TEST_CASE("planted in the state directory: a link in the place of published/ -> no daemon") {
  if (!is_root()) return;
  for (const char* name : {"published", "backups", "journal.db", "anything"}) {
    CAPTURE(name);
    const Shared shared;
    const std::string planted = shared.run + "/" + name;
    fs::create_symlink(shared.secret, planted);
    Shared::give(planted);
    const auto laid = lay_foundation(shared.run, false);
    REQUIRE_FALSE(laid);
    CHECK(laid.error().message().find(planted) != std::string::npos);
    CHECK(shared.mode_of_secret() == 0700);
    CHECK(fs::is_empty(shared.secret));
  }
}

TEST_CASE("state of the owner alone, also behind a link: shared with a group, and closed again") {
  if (!is_root()) return;
  const Shared shared;
  const std::string link = shared / "link";
  fs::create_symlink(shared.run, link);
  struct stat info {};
  REQUIRE(share_state(link, gid_t{1}));
  REQUIRE(::stat(shared.run.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0710);
  CHECK(info.st_gid == 1);
  REQUIRE(share_state(link, std::nullopt));
  REQUIRE(::stat(shared.run.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0700);
}
