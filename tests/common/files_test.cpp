// Files as processes exchange them: claims with one winner, atomic replacement, limits.
#include "common/os/files.hpp"

#include <atomic>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "common/os/patterns.hpp"
#include "tests/folder.hpp"

using namespace stoker;

namespace fs = std::filesystem;
using stoker::testing::Folder;

TEST_CASE("files: eight claimants of one name -> one winner, and its content stands") {
  const Folder folder;
  for (int round = 0; round < 50; ++round) {
    const std::string path = folder / "claim" + std::to_string(round);
    std::atomic<int> winners = 0, winner = -1;
    std::vector<std::thread> claimants;
    for (int who = 0; who < 8; ++who)
      claimants.emplace_back([&, who] {
        const auto ours = os::claim_file(path, std::to_string(who));
        if (ours && *ours) ++winners, winner = who;
      });
    for (auto& claimant : claimants) claimant.join();
    REQUIRE(winners == 1);
    CHECK(*os::read_file(path) == std::to_string(winner));
  }
  CHECK(os::list_directory(folder.path)->size() == 50);  // nothing aside is left
}

TEST_CASE("files: replaced while it is read -> the old or the new content, never less") {
  const Folder folder;
  const std::string path = folder / "control.json", a(100000, 'a'), b(50000, 'b');
  REQUIRE(os::replace_file(path, a, os::Durability::Cached));
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; i < 200; ++i)
      CHECK(os::replace_file(path, i % 2 == 0 ? b : a, os::Durability::Cached));
    done = true;
  });
  while (!done) {
    const auto text = os::read_file(path);
    REQUIRE(text);
    REQUIRE((*text == a || *text == b));
  }
  writer.join();
}

TEST_CASE("files: what is no regular file, too large or a link -> refused by name") {
  const Folder folder;
  REQUIRE(os::replace_file(folder / "big", std::string(1000, 'x'), os::Durability::Cached));
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  fs::create_symlink(folder / "big", folder / "link");
  for (const auto& refused : {os::read_file(folder / "big", 999), os::read_file(folder / "fifo"),
                              os::read_file(folder / "link", 5000, true),
                              os::read_file(folder.path), os::read_file(folder / "none")}) {
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().message().find(folder.path) != std::string::npos);
  }
  CHECK(os::read_file(folder / "link").has_value());
}

TEST_CASE("files: folders are made with their parents; a file in the way is an error") {
  const Folder folder;
  CHECK(os::make_directories(folder / "a/b/c"));
  CHECK(os::make_directories(folder / "a/b/c"));
  REQUIRE(os::append_file(folder / "log", "1\n", os::Durability::Synced));
  REQUIRE(os::append_file(folder / "log", "2\n", os::Durability::Cached));
  CHECK(*os::read_file(folder / "log") == "1\n2\n");
  CHECK_FALSE(os::make_directories(folder / "log/below"));
}

TEST_CASE("files: a shell pattern -> the paths that exist, sorted; what matches nothing -> none") {
  const Folder folder;
  for (const char* name : {"b.log", "a.log", "c.txt"})
    REQUIRE(os::append_file(folder / name, "x", os::Durability::Cached));
  CHECK(os::matching_paths(folder / "*.log") ==
        std::vector<std::string>{folder / "a.log", folder / "b.log"});
  CHECK(os::matching_paths(folder / "[c].txt") == std::vector{folder / "c.txt"});
  CHECK(os::matching_paths(folder / "c.txt") == std::vector{folder / "c.txt"});
  CHECK(os::matching_paths(folder / "*.gone").empty());
  CHECK(os::matching_paths("").empty());
  CHECK(os::find_matching_paths(folder / "*.log").value() == os::matching_paths(folder / "*.log"));
  std::filesystem::create_directory(folder / "wide");
  for (int i = 0; i < 320; ++i)
    std::filesystem::create_directory_symlink(folder / "wide",
                                              folder / ("wide/" + std::to_string(i)));
  CHECK(os::find_matching_paths(folder / "wide/*").value().size() == 320);
  CHECK(os::matching_paths(folder / "wide/*/*/*").empty());
  CHECK(os::find_matching_paths(folder / "wide/*/*/*").error().what.find("more than 100000") == 0);
}

TEST_CASE("files: what lies below a folder -> the same word until something is written there") {
  char name[] = "/tmp/stoker-tree-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const auto print = [&folder] {
    const auto word = os::tree_print(folder);
    REQUIRE(word);
    return *word;
  };
  REQUIRE(os::make_directories(folder + "/step-10"));
  REQUIRE(os::replace_file(folder + "/step-10/shard", "abc", os::Durability::Cached));
  const std::string first = print();
  CHECK(print() == first);
  REQUIRE(os::append_file(folder + "/step-10/shard", "d", os::Durability::Cached));
  const std::string longer = print();
  CHECK(longer != first);
  const timespec times[2] = {{1, 0}, {1, 0}};  // written over in place: the size stays
  REQUIRE(::utimensat(AT_FDCWD, (folder + "/step-10/shard").c_str(), times, 0) == 0);
  CHECK(print() != longer);
  std::filesystem::remove_all(folder + "/step-10");
  CHECK(print() != first);
  std::filesystem::remove_all(folder);
  CHECK(print() == "none");
}

TEST_CASE("files: append through a link -> refused, what it names stays as it is") {
  const Folder folder;
  folder.write("precious", "mine\n");
  std::filesystem::create_symlink(folder / "precious", folder / "log");
  const Status appended = os::append_file(folder / "log", "x\n", os::Durability::Cached);
  REQUIRE_FALSE(appended);
  CHECK(appended.error().message().find("log: is a symbolic link") != std::string::npos);
  CHECK(os::read_file(folder / "precious").value() == "mine\n");
}

TEST_CASE("files: append to a FIFO without a reader -> an error at once") {
  const Folder folder;
  REQUIRE(::mkfifo((folder / "log").c_str(), 0600) == 0);
  CHECK_FALSE(os::append_file(folder / "log", "x\n", os::Durability::Cached));
  REQUIRE(os::append_file(folder / "file", "x\n", os::Durability::Synced));
  CHECK(os::read_file(folder / "file").value() == "x\n");
}
