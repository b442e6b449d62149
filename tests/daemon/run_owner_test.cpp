// A run directory belongs to one state directory.
#include "daemon/state/run_owner.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>

#include "common/os/files.hpp"

using namespace stoker;
using namespace stoker::daemon;

namespace {

struct Folders {
  std::string path, run, mine, other;
  Folders() {
    char name[] = "/tmp/stoker-owner-XXXXXX";
    path = ::mkdtemp(name);
    run = path + "/run";
    mine = path + "/mine";
    other = path + "/other";
    for (const std::string& folder : {run, mine, other}) REQUIRE(os::make_directories(folder));
  }
  ~Folders() { std::filesystem::remove_all(path); }
  Folders(const Folders&) = delete;
  Folders& operator=(const Folders&) = delete;
};

}  // namespace

TEST_CASE("own_run_directory: the first one owns it, again and after a move of its state") {
  const Folders f;
  CHECK(own_run_directory(f.run, f.mine, "alice"));
  CHECK(own_run_directory(f.run, f.mine, "bob"));
  std::filesystem::rename(f.mine, f.path + "/moved");
  CHECK(own_run_directory(f.run, f.path + "/moved", "alice"));
}

TEST_CASE(
    "own_run_directory: another state directory -> refused, with whose it is and what to do") {
  const Folders f;
  REQUIRE(own_run_directory(f.run, f.mine, "alice"));
  const Status refused = own_run_directory(f.run, f.other, "bob");
  REQUIRE_FALSE(refused);
  const std::string text = refused.error().message();
  for (const std::string& word : {f.mine, std::string("alice"), std::string("owner.json")})
    CHECK_MESSAGE(text.find(word) != std::string::npos, text);
  CHECK(own_run_directory(f.run, f.mine, "alice"));
}

TEST_CASE("own_run_directory: the owner's state was deleted, or rebuilt -> taken over") {
  const Folders f;
  REQUIRE(own_run_directory(f.run, f.mine, "alice"));
  std::filesystem::remove_all(f.mine);
  CHECK(own_run_directory(f.run, f.other, "bob"));
  REQUIRE(os::make_directories(f.mine));
  CHECK_FALSE(own_run_directory(f.run, f.mine, "alice"));
}

TEST_CASE("own_run_directory: rubbish in either file -> an error, nothing replaced") {
  const Folders f;
  REQUIRE(os::replace_file(f.run + "/owner.json", "{", os::Durability::Cached));
  CHECK_FALSE(own_run_directory(f.run, f.mine, "alice"));
  CHECK(os::read_file(f.run + "/owner.json").value_or("") == "{");
  REQUIRE(os::replace_file(f.other + "/identity", "x", os::Durability::Cached));
  CHECK_FALSE(own_run_directory(f.run, f.other, "bob"));
}
