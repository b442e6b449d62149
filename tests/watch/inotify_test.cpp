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
  CHECK(inotify.watch("a", std::vector<std::string>{folder.path}));
  const auto write = [&](const std::string& name) { folder.append(name, "x\n"); };
  CHECK(inotify.drain().empty());
  write("main.log");
  write("events.jsonl");
  REQUIRE(os::replace_file(folder / "status.json", "{}", os::Durability::Cached));
  CHECK(inotify.drain().empty());
  write("main.log");
  write("lead.jsonl");
  CHECK_FALSE(inotify.drain().empty());
  REQUIRE(os::replace_file(folder / "DONE", "", os::Durability::Cached));
  CHECK_FALSE(inotify.drain().empty());
}

TEST_CASE("inotify: folders of several runs -> a hint names whose they are, as long as they are") {
  using Names = std::set<std::string>;
  const Folder folder;
  for (const char* name : {"a", "b", "shared"}) std::filesystem::create_directories(folder / name);
  const auto write = [&](const std::string& name) { folder.append(name, "x\n"); };
  Inotify inotify;
  CHECK(inotify.watch("a", {folder / "a", folder / "shared"}));
  CHECK(inotify.watch("b", {folder / "b", folder / "shared"}));
  CHECK_FALSE(inotify.watch("c", {folder / "later"}));
  CHECK(inotify.watch("d", {folder / "shared", folder / "shared/later"}));  // its coming is hinted
  CHECK(inotify.watch("d", {}));
  write("a/lead.jsonl");
  CHECK(inotify.drain() == Names{"a"});
  write("shared/save");
  CHECK(inotify.drain() == Names{"a", "b"});
  CHECK(inotify.watch("a", {folder / "a"}));
  write("shared/save");
  CHECK(inotify.drain() == Names{"b"});
  CHECK(inotify.watch("b", {}));
  write("shared/save");
  write("b/lead.jsonl");
  CHECK(inotify.drain().empty());
  std::filesystem::create_directories(folder / "later");
  CHECK(inotify.watch("c", {folder / "later"}));
  write("later/save");
  CHECK(inotify.drain() == Names{"c"});
}
