// FollowEnds: the end of a follower's job is reported once while it is waited for.
#include "watch/follow_ends.hpp"

#include <doctest/doctest.h>

#include "common/os/files.hpp"
#include "tests/folder.hpp"
#include "wire/follow_files.hpp"

using namespace stoker;
using namespace stoker::watch;

namespace {

const Token kToken("run+evaluate.1000-1-0badcafe");
const Follow kFollow{kToken, "evaluate-001000.g000002", false};

std::string end_path(const testing::Folder& folder) {
  REQUIRE(os::make_directories(folder / "after/evaluate-001000.g000002", 0700));
  return "after/evaluate-001000.g000002/" + wire::follow_end(kToken);
}

std::vector<core::FollowerEnded> polled(FollowEnds& ends) {
  std::vector<core::Input> out;
  ends.poll(out);
  std::vector<core::FollowerEnded> found;
  for (const core::Input& input : out) found.push_back(std::get<core::FollowerEnded>(input.body));
  return found;
}

}  // namespace

TEST_CASE("follow ends: absent, there, reported, waited for again -> reported once each time") {
  const testing::Folder folder;
  FollowEnds ends(RunName("run"), folder.path);
  ends.wait_for({kFollow});
  CHECK(polled(ends).empty());
  wire::FollowEnd end;
  end.token = kToken;
  end.code = 3;
  end.words = "no file";
  end.ordered = true;
  folder.write(end_path(folder), to_json_text(end));
  const auto found = polled(ends);
  REQUIRE(found.size() == 1);
  CHECK(found[0].token == kToken);
  CHECK(found[0].code == 3);
  CHECK(found[0].words == "no file");
  CHECK(found[0].ordered);
  CHECK(polled(ends).empty());
  ends.wait_for({});
  CHECK_FALSE(ends.waits());
  ends.wait_for({kFollow});  // after a restart of the daemon
  CHECK(polled(ends).size() == 1);
}

TEST_CASE("follow ends: the job is over, and left none -> missing, once, if its folder is read") {
  const testing::Folder folder;
  FollowEnds ends(RunName("run"), folder.path);
  ends.wait_for({{kToken, kFollow.folder, true}});
  CHECK(polled(ends).empty());  // no folder: perhaps its file system is not there
  folder.write(end_path(folder) + ".part", "{");
  CHECK(polled(ends).empty());
  folder.write("after/evaluate-001000.g000002/order.json", "{}");
  ends.wait_for({kFollow});
  CHECK(polled(ends).empty());  // it may still run
  ends.wait_for({{kToken, kFollow.folder, true}});
  const auto missing = polled(ends);
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].missing);
  CHECK(missing[0].token == kToken);
  CHECK(polled(ends).empty());
  wire::FollowEnd end;  // it was late
  end.token = kToken;
  folder.write(end_path(folder), to_json_text(end));
  const auto found = polled(ends);
  REQUIRE(found.size() == 1);
  CHECK_FALSE(found[0].missing);
}

TEST_CASE("follow ends: torn, of another job, a link -> an end without success that says why") {
  const testing::Folder folder;
  for (const std::string& text :
       {std::string("{\"code\":"), std::string("{\"token\":\"other\"}")}) {
    FollowEnds ends(RunName("run"), folder.path);
    ends.wait_for({kFollow});
    folder.write(end_path(folder), text);
    const auto found = polled(ends);
    REQUIRE(found.size() == 1);
    CHECK(found[0].code == 1);
    CHECK_FALSE(found[0].words.empty());
  }
  const testing::Folder other;
  std::filesystem::create_symlink("/etc/passwd", other / end_path(other));
  FollowEnds ends(RunName("run"), other.path);
  ends.wait_for({kFollow});
  const auto found = polled(ends);
  REQUIRE(found.size() == 1);
  CHECK(found[0].code == 1);
}
