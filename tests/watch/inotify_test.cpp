// Inotify: which changes are worth a look.
#include "watch/inotify.hpp"

#include "common/os/files.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using namespace stoker::watch;
using stoker::testing::Folder;

TEST_CASE("inotify: a file that a watcher reads -> a hint; what stoker writes for others -> none") {
  const Folder folder;
  Inotify inotify;
  REQUIRE(inotify.fd() >= 0);
  inotify.watch(std::vector<std::string>{folder.path});
  const auto write = [&](const std::string& name) { folder.append(name, "x\n"); };
  CHECK_FALSE(inotify.drain());
  write("main.log");
  write("events.jsonl");
  REQUIRE(os::replace_file(folder / "status.json", "{}", os::Durability::Cached));
  CHECK_FALSE(inotify.drain());
  write("main.log");
  write("lead.jsonl");
  CHECK(inotify.drain());
  REQUIRE(os::replace_file(folder / "DONE", "", os::Durability::Cached));
  CHECK(inotify.drain());
}
