// EndFile: the end mark of a generation counts when only we can have written it; reported once.
#include "watch/end_file.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "tests/folder.hpp"
#include "watch/run_watcher.hpp"

using namespace stoker;
using namespace stoker::watch;

namespace {

struct Run {
  testing::Folder folder;
  std::string path = folder.path + "/gen-000002/end.json";
  Run() { REQUIRE(os::make_directories(folder.path + "/gen-000002")); }
  void write(Generation generation, unsigned mode = 0644) const {
    wire::EndMark mark;
    mark.generation = generation;
    mark.why = "all 4 ranks ended with exit code 0";
    REQUIRE(os::replace_file(path, to_json_text(mark), os::Durability::Cached, mode));
  }
  [[nodiscard]] std::string refusal() const {
    const auto mark = read_end(folder.path, Generation(2));
    return mark ? "" : mark.error().message();
  }
};

}  // namespace

TEST_CASE("end mark: absent, then there -> empty, then itself") {
  const Run run;
  auto mark = read_end(run.folder.path, Generation(2));
  REQUIRE(mark);
  CHECK_FALSE(mark->has_value());
  run.write(Generation(2));
  mark = read_end(run.folder.path, Generation(2));
  REQUIRE(mark);
  REQUIRE(mark->has_value());
  CHECK((*mark)->kind == wire::End::Finished);
}

TEST_CASE("end mark: a link, writable by others, of another generation, torn -> refused") {
  const Run run;
  run.write(Generation(2), 0664);
  REQUIRE(::chmod(run.path.c_str(), 0664) == 0);
  CHECK(run.refusal().find("may write it") != std::string::npos);
  REQUIRE(::chmod(run.path.c_str(), 0646) == 0);
  CHECK(run.refusal().find("may write it") != std::string::npos);
  run.write(Generation(1));
  CHECK(run.refusal().find("another generation") != std::string::npos);
  REQUIRE(os::replace_file(run.path, "{\"generation\": 2", os::Durability::Cached));
  CHECK(run.refusal() != "");
  run.write(Generation(2));
  REQUIRE(::rename(run.path.c_str(), (run.folder.path + "/elsewhere").c_str()) == 0);
  REQUIRE(::symlink((run.folder.path + "/elsewhere").c_str(), run.path.c_str()) == 0);
  CHECK(run.refusal().find("symbolic link") != std::string::npos);
  if (::geteuid() != 0) return;  // only root can give a file away
  REQUIRE(::unlink(run.path.c_str()) == 0);
  run.write(Generation(2));
  REQUIRE(::chown(run.path.c_str(), 65534, 65534) == 0);
  CHECK(run.refusal().find("it belongs to ") != std::string::npos);
}

TEST_CASE(
    "end file: there -> reported once, also after a restart; refused -> reported with the reason") {
  const Run run;
  std::vector<core::Input> out;
  EndFile watched(RunName("hello"), run.folder.path, {});
  watched.poll(Generation(0), out);
  watched.poll(Generation(2), out);
  CHECK(out.empty());
  run.write(Generation(2));
  watched.poll(Generation(2), out);
  watched.poll(Generation(2), out);
  REQUIRE(out.size() == 1);
  CHECK(std::get<core::EndSeen>(out[0].body).mark.generation == Generation(2));
  CHECK(std::get<core::EndSeen>(out[0].body).refused == "");
  EndFile again(RunName("hello"), run.folder.path, out[0].cursors);
  again.poll(Generation(2), out);
  CHECK(out.size() == 1);
  REQUIRE(::chmod(run.path.c_str(), 0666) == 0);
  again.poll(Generation(2), out);
  again.poll(Generation(2), out);
  REQUIRE(out.size() == 2);
  CHECK(std::get<core::EndSeen>(out[1].body).refused != "");
}

TEST_CASE("run watcher: an end mark in the newest generation -> reported") {
  const Run run;
  run.write(Generation(2));
  core::RunPolicy policy;
  policy.run = RunName("hello");
  policy.directory = run.folder.path;
  policy.watch.disk_min_free = 0;  // the disk of the test may be full
  policy.watch.disk_min_free_inodes = 0;
  RunWatcher watcher({policy, false}, {});
  const auto inputs = watcher.poll(Instant{} + 1h);
  REQUIRE(!inputs.empty());
  CHECK(std::holds_alternative<core::EndSeen>(inputs.back().body));
}
