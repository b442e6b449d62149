// FinishFile and RunWatcher: the file that ends a run is reported once, and before the ranks' end.
#include "watch/finish_file.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "tests/folder.hpp"
#include "watch/run_watcher.hpp"

using namespace stoker;
using namespace stoker::watch;

namespace {

core::RunPolicy policy_of(const std::string& directory, const std::string& file) {
  core::RunPolicy policy;
  policy.run = RunName("hello");
  policy.directory = directory;
  policy.train.finished.file = file;
  return policy;
}

}  // namespace

TEST_CASE("finish file: absent, there, gone -> reported at each change, not after a restart") {
  testing::Folder folder;
  const auto policy = policy_of(folder.path, "DONE");
  std::vector<core::Input> out;
  FinishFile watched(policy, {});
  watched.poll(out);
  CHECK(out.empty());
  REQUIRE(os::replace_file(folder.path + "/DONE", "", os::Durability::Cached));
  watched.poll(out);
  watched.poll(out);
  REQUIRE(out.size() == 1);
  CHECK(std::get<core::FinishFileSeen>(out[0].body).path == folder.path + "/DONE");
  CHECK(std::get<core::FinishFileSeen>(out[0].body).there);
  FinishFile again(policy, out[0].cursors);
  again.poll(out);
  CHECK(out.size() == 1);
  REQUIRE(::unlink((folder.path + "/DONE").c_str()) == 0);
  again.poll(out);
  REQUIRE(out.size() == 2);
  CHECK_FALSE(std::get<core::FinishFileSeen>(out[1].body).there);
}

TEST_CASE("finish file: a folder, a FIFO of that name -> is no such file") {
  testing::Folder folder;
  REQUIRE(os::make_directories(folder.path + "/DONE"));
  REQUIRE(::mkfifo((folder.path + "/PIPE").c_str(), 0600) == 0);
  for (const char* name : {"DONE", "PIPE"}) {
    std::vector<core::Input> out;
    FinishFile(policy_of(folder.path, name), {}).poll(out);
    CHECK(out.empty());
  }
}

TEST_CASE("finish file: another user's file or link -> it does not count, and is named once") {
  if (::geteuid() != 0) return;  // to make it another user's
  constexpr uid_t kStranger = 54321;
  for (const bool link : {false, true}) {
    testing::Folder folder;
    const std::string path = folder.path + "/DONE";
    if (link)
      REQUIRE(::symlink("/etc/passwd", path.c_str()) == 0);
    else
      REQUIRE(os::replace_file(path, "", os::Durability::Cached));
    REQUIRE(::lchown(path.c_str(), kStranger, kStranger) == 0);
    std::vector<core::Input> out;
    FinishFile watched(policy_of(folder.path, "DONE"), {});
    watched.poll(out);
    watched.poll(out);
    REQUIRE(out.size() == 1);
    CHECK(std::get<core::LogFollowed>(out[0].body).detail.find("54321") != std::string::npos);
  }
}

TEST_CASE("finish file: a second name of another file of ours -> does not count") {
  testing::Folder folder;
  folder.write("README", "");
  std::filesystem::create_hard_link(folder / "README", folder / "DONE");
  const auto found = is_finish_file(folder / "DONE");
  REQUIRE_FALSE(found);
  CHECK(found.error().what.find("several names") != std::string::npos);
}

TEST_CASE("run watcher: the file and the end of the ranks at one look -> the file comes first") {
  testing::Folder folder;
  const std::string generation = folder.path + "/gen-000001";
  REQUIRE(os::make_directories(generation));
  RunWatcher watcher({policy_of(folder.path, "DONE"), false}, {});
  (void)watcher.poll(Instant{} + 1s);
  wire::AgentEvent ended;
  ended.body = wire::AttemptEnded{};
  REQUIRE(os::append_file(generation + "/lead.jsonl", wire::format_event_line(ended),
                          os::Durability::Cached));
  REQUIRE(os::replace_file(folder.path + "/DONE", "", os::Durability::Cached));
  const auto inputs = watcher.poll(Instant{} + 2s);
  REQUIRE(inputs.size() == 2);
  CHECK(std::holds_alternative<core::FinishFileSeen>(inputs[0].body));
  CHECK(std::holds_alternative<core::AgentSaid>(inputs[1].body));
}

TEST_CASE("run watcher: beats between two digests -> the newest is there to be shown") {
  testing::Folder folder;
  const std::string generation = folder.path + "/gen-000001";
  REQUIRE(os::make_directories(generation));
  RunWatcher watcher({policy_of(folder.path, ""), false}, {});
  for (std::uint64_t n = 1; n <= 3; ++n) {
    wire::AgentEvent event;
    event.at = Instant{} + std::chrono::seconds(n);
    wire::Beat beat;
    beat.iteration_max = Iteration(n);
    event.body = beat;
    REQUIRE(os::append_file(generation + "/lead.jsonl", wire::format_event_line(event),
                            os::Durability::Cached));
    (void)watcher.poll(Instant{} + std::chrono::seconds(n));
  }
  REQUIRE(watcher.live());
  CHECK(watcher.live()->beat.iteration_max == Iteration(3));
  CHECK(watcher.live()->generation == Generation(1));
  CHECK(watcher.live()->at == Instant{} + 3s);
}
