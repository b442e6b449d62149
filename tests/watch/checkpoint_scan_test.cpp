// Which checkpoint counts: newest, good, of the ancestry; everything else is named.
#include "watch/checkpoint_scan.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/files.hpp"

using namespace stoker;
using namespace stoker::watch;

namespace {

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/stoker-scan-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }

  std::string add(std::uint64_t step, std::uint32_t generation,
                  const std::string& content = "abc") {
    const std::string name = wire::checkpoint_name(Iteration(step), Generation(generation));
    const std::string folder = path + "/" + name;
    REQUIRE(os::make_directories(folder));
    wire::Manifest m;
    m.iteration = Iteration(step);
    m.generation = Generation(generation);
    m.files = {{"shard.bin", content.size(), hex64(xxh3_64(content))}};
    write(name, "shard.bin", content);
    write(name, wire::kManifestName, to_json_text(m));
    return name;
  }
  void write(const std::string& name, const std::string& file, const std::string& content) const {
    REQUIRE(os::replace_file(path + "/" + name + "/" + file, content, os::Durability::Cached));
  }
  [[nodiscard]] CheckpointScan scan(const std::optional<wire::Lineage>& lineage = {},
                                    Depth depth = Depth::Content) const {
    auto result = scan_checkpoints(path, lineage, depth);
    REQUIRE(result);
    return std::move(*result);
  }

  std::string path;
};

bool says(const CheckpointScan& scan, const std::string& name, const std::string& why) {
  for (const auto& damaged : scan.damaged)
    if (damaged.name == name) return damaged.why.find(why) != std::string::npos;
  return false;
}

}  // namespace

TEST_CASE("scan_checkpoints: nothing there -> nothing found") {
  CHECK_FALSE(scan_checkpoints("/no/such/folder", {}, Depth::Content)->newest);
  CHECK_FALSE(Folder().scan().newest);
}

TEST_CASE("scan_checkpoints: several good ones -> the highest step, then generation") {
  Folder folder;
  folder.add(10, 2);
  folder.add(20, 1);
  const std::string newest = folder.add(20, 3);
  CHECK(folder.scan().newest->name == newest);
}

TEST_CASE("scan_checkpoints: damage of each kind -> named, and the one before is taken") {
  const std::string before = "step-000010.g000001", last = "step-000020.g000001";
  const auto damaged = [&](auto damage, const std::string& why) {
    Folder folder;
    folder.add(10, 1);
    folder.add(20, 1);
    damage(folder);
    const auto scan = folder.scan();
    CHECK(says(scan, last, why));
    CHECK(scan.newest->name == before);
  };
  damaged([&](Folder& f) { f.write(last, "shard.bin", "ab"); }, "2 bytes instead of 3");
  damaged([&](Folder& f) { f.write(last, "shard.bin", "abd"); }, "the content has changed");
  damaged([&](Folder& f) { f.write(last, "shard.bin.orig", "abc"); }, "does not know");
  damaged([&](Folder& f) { std::filesystem::remove(f.path + "/" + last + "/shard.bin"); },
          "cannot open");
  damaged([&](Folder& f) { f.write(last, "manifest.json", "{\"version\":"); }, "manifest.json");
  damaged([&](Folder& f) { f.write(last, "manifest.json", "{\"version\":99}"); },
          "format version 99");
  damaged(
      [&](Folder& f) {
        std::filesystem::copy(f.path + "/" + before + "/manifest.json",
                              f.path + "/" + last + "/manifest.json",
                              std::filesystem::copy_options::overwrite_existing);
      },
      "its manifest is that of " + before);
}

TEST_CASE("scan_checkpoints: sizes only -> changed content is not read") {
  Folder folder;
  const std::string name = folder.add(10, 1);
  folder.write(name, "shard.bin", "abd");
  CHECK(folder.scan({}, Depth::Sizes).newest->name == name);
  CHECK_FALSE(folder.scan({}, Depth::Content).newest);
}

TEST_CASE("scan_checkpoints: known to be damaged -> named with that reason, and not taken") {
  Folder folder;
  const std::string before = folder.add(10, 1), last = folder.add(20, 1);
  const auto scan = scan_checkpoints(folder.path, {}, Depth::Sizes, {{last, "torn on rank 3"}});
  REQUIRE(scan);
  CHECK(says(*scan, last, "torn on rank 3"));
  CHECK(scan->ours_damaged);
  CHECK(scan->newest->name == before);
}

TEST_CASE("check_content: three ranks' shares -> every file is read once, by one of them") {
  Folder folder;
  const std::string name = folder.add(10, 1);
  wire::Manifest manifest;
  for (const char* file : {"a.bin", "b.bin", "c.bin", "d.bin"}) {
    folder.write(name, file, file);
    manifest.files.push_back({file, 5, hex64(xxh3_64(file))});
  }
  const std::string path = folder.path + "/" + name;
  for (const std::size_t damaged : {0u, 1u, 2u, 3u}) {
    folder.write(name, manifest.files[damaged].name, "other");
    for (const std::size_t rank : {0u, 1u, 2u})
      CHECK(check_content(path, manifest, rank, 3).has_value() == (damaged % 3 != rank));
    folder.write(name, manifest.files[damaged].name, manifest.files[damaged].name);
  }
  CHECK(check_content(path, manifest, 7, 8));  // more ranks than files
}

TEST_CASE("scan_checkpoints: ancestry -> only its checkpoints, a late writer's are foreign") {
  Folder folder;
  folder.add(10, 1);
  folder.add(30, 1);  // saved by generation 1 after generation 2 had begun at step 10
  folder.add(20, 2);
  const wire::Lineage lineage =
      wire::descend({{Generation(1), wire::kNoBound}}, Iteration(10), Generation(2));
  const auto scan = folder.scan(lineage);
  CHECK(scan.newest->name == "step-000020.g000002");
  CHECK(scan.foreign == std::vector<std::string>{"step-000030.g000001"});
  CHECK(folder.scan().newest->name == "step-000030.g000001");
}

TEST_CASE("scan_checkpoints: saves that never ended -> unfinished, never loaded") {
  Folder folder;
  const std::string name = folder.add(10, 1);
  std::filesystem::remove(folder.path + "/" + name + "/manifest.json");
  std::filesystem::create_directories(folder.path + "/step-000020.g000001.partial.1");
  const auto scan = folder.scan();
  CHECK_FALSE(scan.newest);
  CHECK(scan.unfinished.size() == 2);
}

TEST_CASE("check_checkpoint: a manifest with a path for a name -> refused") {
  Folder folder;
  const std::string name = folder.add(10, 1);
  wire::Manifest m;
  m.iteration = Iteration(10);
  m.generation = Generation(1);
  m.files = {{"../other", 3, "0000000000000000"}};
  folder.write(name, "manifest.json", to_json_text(m));
  const auto checked = check_checkpoint(folder.path + "/" + name + "/", Depth::Content);
  REQUIRE_FALSE(checked);
  CHECK(checked.error().message().find("is no name for a file") != std::string::npos);
}

TEST_CASE(
    "scan_checkpoints: others put checkpoints where they can -> no reason to refuse a start") {
  if (::geteuid() != 0) return;  // to make it another user's
  Folder f;
  const std::string name = f.add(10, 1);
  REQUIRE(::chown((f.path + "/" + name).c_str(), 54321, 54321) == 0);
  for (const mode_t mode : {0755, 01777}) {
    REQUIRE(::chmod(f.path.c_str(), mode) == 0);
    const auto scan = f.scan();
    CHECK_FALSE(scan.newest);
    CHECK(says(scan, name, "belongs to uid 54321"));
    CHECK(scan.ours_damaged == (mode == 0755));
  }
}

TEST_CASE("scan_checkpoints: others put many where they can -> ours is found, twenty are named") {
  if (::geteuid() != 0) return;  // to make them another user's
  Folder f;
  const std::string ours = f.add(10, 1);
  REQUIRE(::chmod(f.path.c_str(), 01777) == 0);
  for (std::uint64_t step = 100; step < 130; ++step) {
    const std::string folder = f.path + "/" + wire::checkpoint_name(Iteration(step), Generation(1));
    REQUIRE(os::make_directories(folder));  // no manifest: what is in it is of no interest
    REQUIRE(::chown(folder.c_str(), 54321, 54321) == 0);
  }
  const auto scan = f.scan();
  REQUIRE(scan.newest);
  CHECK(scan.newest->name == ours);
  CHECK_FALSE(scan.ours_damaged);
  REQUIRE(scan.damaged.size() == 20);
  CHECK(scan.unfinished.empty());
  CHECK(says(scan, "step-000129.g000001", "belongs to uid 54321"));
  CHECK(says(scan, "step-000110.g000001", "10 more entries of other users"));
}
