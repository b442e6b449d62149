// Who else writes a file, and what others have put into a folder.
#include "common/os/writers.hpp"

#include <doctest/doctest.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/own_files.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using stoker::testing::Folder;

namespace {
constexpr uid_t kAnother = 54321;
constexpr gid_t kTeam = 54321;
}  // namespace

TEST_CASE("writers: the owner alone, or a group of the owner's name -> no other; else who") {
  const Folder folder;
  const std::string file = folder.write("RUN.yaml", "run: x");
  REQUIRE(::chmod(file.c_str(), 0644) == 0);
  CHECK(os::other_writer(file).empty());
  CHECK(os::read_guarded_file(file, 100).value_or("") == "run: x");
  REQUIRE(::chmod(file.c_str(), 0646) == 0);
  CHECK(os::other_writer(file) == "everybody");
  const auto refused = os::read_guarded_file(file, 100);
  REQUIRE_FALSE(refused);
  CHECK(os::is_refusal(refused.error()));
  CHECK(os::other_writer(folder / "none").empty());
  CHECK_FALSE(os::is_refusal(os::read_guarded_file(folder / "none", 100).error()));
}

TEST_CASE("writers: another user's file, one of a group, a sticky folder") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: to make files of other users needs root");
    return;
  }
  const Folder folder;
  const std::string file = folder.write("RUN.yaml", "run: x");
  REQUIRE(::chmod(file.c_str(), 0664) == 0);
  CHECK(os::other_writer(file).empty());  // the group root
  REQUIRE(::chown(file.c_str(), 0, kTeam) == 0);
  CHECK(os::other_writer(file) == "group gid 54321");
  REQUIRE(::chmod(file.c_str(), 0600) == 0);
  REQUIRE(::chown(file.c_str(), kAnother, 0) == 0);
  CHECK(os::other_writer(file) == "uid 54321");
  // What a path leads to counts, not who made the link.
  std::filesystem::create_symlink(file, folder / "link");
  CHECK(os::read_guarded_file(folder / "link", 100).error().message().find("uid 54321") !=
        std::string::npos);
  const std::string shared = folder / "shared";
  REQUIRE(::mkdir(shared.c_str(), 0700) == 0);
  REQUIRE(::chmod(shared.c_str(), 0777) == 0);
  CHECK(os::other_writer(shared) == "everybody");
  REQUIRE(::chmod(shared.c_str(), 01777) == 0);
  CHECK(os::other_writer(shared).empty());
}

TEST_CASE("entries: ours and links of ours -> fine; a file, a link, a folder of another -> named") {
  const Folder folder;
  folder.write("events.jsonl", "");
  std::filesystem::create_symlink("/etc/passwd", folder / "checkpoints");
  CHECK(os::check_entries(folder.path, {"events.jsonl", "checkpoints", "none"}));
  CHECK(os::check_entries(folder.path));
  if (::geteuid() != 0) return;
  REQUIRE(::lchown((folder / "checkpoints").c_str(), kAnother, kTeam) == 0);
  CHECK(os::check_entries(folder.path, {"events.jsonl"}));
  for (const Status& status :
       {os::check_entries(folder.path), os::check_entries(folder.path, {"checkpoints"})}) {
    REQUIRE_FALSE(status);
    CHECK(status.error().message().find("belongs to uid 54321") != std::string::npos);
    CHECK(status.error().object == folder / "checkpoints");
  }
}
