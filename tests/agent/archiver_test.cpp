// What checkpoints.archive copies, how it goes on, and what it must never take for a copy.
#include "worker/agent/storage/archiver.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/files.hpp"
#include "kernels/state_digest.hpp"
#include "watch/checkpoint_scan.hpp"

using namespace stoker;
using namespace stoker::agent;

namespace {

using Names = std::vector<std::string>;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

class Archive {
 public:
  Archive() {
    char name[] = "/tmp/stoker-archive-XXXXXX";
    path = ::mkdtemp(name);
    checkpoints = path + "/checkpoints";
    to = path + "/store";
    start.run = RunName("run");
    start.generation = Generation(2);
    start.lineage = {{Generation(2), wire::kNoBound}};
    start.orders.archive_to = to;
    start.orders.archive_every = 10;
    REQUIRE(os::make_directories(path + "/gen-000002"));
    REQUIRE(os::make_directories(to));
  }
  ~Archive() { std::filesystem::remove_all(path); }
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  void write(const std::string& name, const std::string& content) const {
    REQUIRE(os::replace_file(name, content, os::Durability::Cached));
  }
  [[nodiscard]] static std::string read(const std::string& name) {
    return os::read_file(name).value_or(std::string("unreadable"));
  }

  // Two shards of a tensor "w" of five numbers, laid out as stoker-train does: header, parameters,
  // moments.
  std::string add(std::uint64_t step, std::uint32_t generation = 2) {
    const std::string name = wire::checkpoint_name(Iteration(step), Generation(generation));
    const std::string folder = checkpoints + "/" + name;
    REQUIRE(os::make_directories(folder));
    wire::Manifest m;
    m.run = "run";
    m.iteration = Iteration(step);
    m.generation = Generation(generation);
    m.tensors = {{"w", {5}}};
    m.parameters = 5;
    for (std::uint64_t shard = 0, begin = 0; shard < 2; ++shard) {
      const std::uint64_t count = shard == 0 ? 3 : 2;
      const std::string file = "shard-" + std::to_string(shard) + ".bin";
      std::string content(64, static_cast<char>('A' + shard));
      for (const char* part : {"parameter", "moment1", "moment2"}) {
        m.ranges.push_back({"w", part, "f32", begin, count, file, content.size()});
        std::vector<float> values;
        for (std::uint64_t i = 0; i < count; ++i)
          values.push_back(static_cast<float>(begin + i) + (part[0] == 'p' ? 0.5f : 100.0f));
        content += bytes_of(values);
      }
      begin += count;
      write(folder + "/" + file, content);
      m.files.push_back({file, content.size(), hex64(xxh3_64(content))});
    }
    write(folder + "/manifest.json", to_json_text(m));
    return name;
  }
  [[nodiscard]] Names stored() const { return os::list_directory(to).value_or(Names{}); }

  Status copy(const std::string& name, ArchiveCopy& made, std::uint32_t by = 2) {
    CopyPulse pulse;
    return copy_checkpoint(checkpoints + "/" + name, rule(), Generation(by), pulse, made);
  }
  [[nodiscard]] ArchiveRule rule() const {
    return {to, start.orders.archive_every, start.orders.archive_without_optimizer};
  }

  // As the lead does it: looks until nothing is under way. Returns what was reported.
  std::vector<wire::AgentBody> work() {
    std::vector<wire::AgentBody> reported;
    Loop loop;
    Archiver archiver({loop, path, checkpoints,
                       [&reported](wire::AgentBody body) { reported.push_back(std::move(body)); },
                       [this] { ++freed; }},
                      start);
    archiver.look();
    const Instant end = monotonic_now() + 5s;
    while (!archiver.settled() && monotonic_now() < end) loop.turn(20ms);
    CHECK(archiver.settled());
    for (const std::uint64_t step : {10, 20, 25})
      stays[step] = archiver.must_stay({Iteration(step), Generation(2)});
    return reported;
  }

  std::string path, checkpoints, to;
  wire::Start start;
  int freed = 0;
  std::map<std::uint64_t, bool> stays;
};

const wire::ArchiveFailed* failure_in(const std::vector<wire::AgentBody>& reported) {
  for (const wire::AgentBody& body : reported)
    if (const auto* failed = std::get_if<wire::ArchiveFailed>(&body)) return failed;
  return nullptr;
}

}  // namespace

TEST_CASE("choose_archivable: multiples that are good and not copied yet, oldest first") {
  const auto id = [](std::uint64_t step) {
    return wire::CheckpointId{Iteration(step), Generation(1)};
  };
  const ArchiveRule rule{"/store", 10, false};
  std::vector<wire::SurveyedCheckpoint> all{
      {id(40), true}, {id(20), true}, {id(25), true}, {id(30), true}};
  CHECK(choose_archivable(all, rule, {}) == std::vector{id(20), id(30), id(40)});
  CHECK(choose_archivable(all, rule, {id(20)}) == std::vector{id(30), id(40)});
  all[0].good = false;
  CHECK(choose_archivable(all, rule, {id(20)}) == std::vector{id(30)});
  CHECK(choose_archivable(all, {}, {}).empty());
}

TEST_CASE("Archiver: whole copies -> the same bytes, reported, and only then they need not stay") {
  Archive a;
  const std::string first = a.add(10), second = a.add(20);
  a.add(25);
  const auto reported = a.work();
  CHECK(a.stored() == Names{first, second});
  for (const std::string& name : {first, second})
    for (const char* file : {"shard-0.bin", "shard-1.bin", "manifest.json"}) {
      const std::string copy = a.read(a.to + "/" + name + "/" + file);
      CHECK(copy == a.read(a.checkpoints + "/" + name + "/" + file));
    }
  REQUIRE(reported.size() == 2);
  const auto* copied = std::get_if<wire::CheckpointArchived>(&reported[0]);
  REQUIRE(copied != nullptr);
  CHECK(copied->checkpoint == first);
  CHECK(copied->path == a.to + "/" + first);
  CHECK(copied->bytes == 2 * 64 + 5 * 12);
  CHECK(a.freed == 2);
  CHECK_FALSE(a.stays[10]);
  CHECK_FALSE(a.stays[20]);
  CHECK_FALSE(a.stays[25]);
  CHECK(a.work().empty());  // nothing is left to do, and nothing is reported twice
}

TEST_CASE("Archiver: without the optimizer -> a checkpoint of its own, parameters alone") {
  Archive a;
  a.start.orders.archive_without_optimizer = true;
  const std::string name = a.add(10);
  const auto reported = a.work();
  const auto copy = watch::check_checkpoint(a.to + "/" + name, watch::Depth::Content);
  REQUIRE(copy);
  CHECK(copy->without_optimizer);
  CHECK(copy->files.size() == 2);
  REQUIRE(copy->ranges.size() == 2);
  CHECK(copy->ranges[1].file_offset == 64);
  CHECK(copy->ranges[1].begin == 3);
  const std::string shard = a.read(a.to + "/" + name + "/shard-1.bin");
  CHECK(shard == std::string(64, 'B') + bytes_of(std::vector<float>{3.5f, 4.5f}));
  kernels::StateDigest digest;
  const std::vector<float> whole{0.5f, 1.5f, 2.5f, 3.5f, 4.5f};
  digest.add("w/parameter", 0, whole.data(), whole.size());
  CHECK(copy->digest == digest.hex());
  // No start takes it for a resume point.
  std::filesystem::remove_all(a.checkpoints + "/" + name);
  std::filesystem::rename(a.to + "/" + name, a.checkpoints + "/" + name);
  const auto scan = watch::scan_checkpoints(a.checkpoints, {}, watch::Depth::Sizes);
  REQUIRE(scan);
  CHECK_FALSE(scan->newest);
  REQUIRE(scan->damaged.size() == 1);
  CHECK(scan->damaged[0].why.find("no optimizer state") != std::string::npos);
}

TEST_CASE("Archiver: killed while it copied -> goes on after the last whole file") {
  for (const bool without : {false, true}) {
    Archive a;
    a.start.orders.archive_without_optimizer = without;
    const std::string name = a.add(10), source = a.checkpoints + "/" + name;
    // The second shard cannot be read: the first one is whole, its record says so.
    const std::string second = a.read(source + "/shard-1.bin");
    std::filesystem::remove(source + "/shard-1.bin");
    ArchiveCopy made;
    CHECK_FALSE(a.copy(name, made));
    const std::string aside = a.to + "/archiving.run." + name + ".g000002";
    REQUIRE(os::exists(aside + "/shard-0.bin"));
    CHECK(a.stored() == Names{"archiving.run." + name + ".g000002"});
    a.write(aside + "/shard-1.bin.tmp", "half");
    // What is whole is not copied again: the source of it is gone meanwhile.
    const std::string first = a.read(source + "/shard-0.bin");
    std::filesystem::remove(source + "/shard-0.bin");
    a.write(source + "/shard-1.bin", second);
    // A younger generation takes it over.
    ArchiveCopy again;
    const Status done = a.copy(name, again, 3);
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    CHECK(a.stored() == Names{name});
    const auto copy = watch::check_checkpoint(a.to + "/" + name, watch::Depth::Content);
    REQUIRE(copy);
    CHECK(copy->without_optimizer == without);
    if (!without) CHECK(a.read(a.to + "/" + name + "/shard-0.bin") == first);
  }
}

TEST_CASE(
    "Archiver: a link in the place of its folder -> nothing is removed or written behind it") {
  Archive a;
  const std::string name = a.add(10), victim = a.path + "/victim";
  REQUIRE(os::make_directories(victim));
  a.write(victim + "/precious", "precious");
  const std::string aside = a.to + "/archiving.run." + name + ".g000002";
  REQUIRE(::symlink(victim.c_str(), aside.c_str()) == 0);
  ArchiveCopy made;
  CHECK(a.copy(name, made));
  CHECK(os::exists(a.to + "/" + name + "/manifest.json"));
  CHECK(a.read(victim + "/precious") == "precious");
  CHECK_FALSE(os::exists(victim + "/shard-0.bin"));
}

TEST_CASE("Archiver: killed after the manifest -> read back and named; what rotted starts over") {
  Archive a;
  const std::string name = a.add(10), aside = a.to + "/archiving.run." + name + ".g000002";
  std::filesystem::copy(a.checkpoints + "/" + name, aside);
  a.write(aside + "/copied.json", "{}");
  ArchiveCopy made;
  CHECK(a.copy(name, made));
  CHECK(a.stored() == Names{name});
  std::filesystem::rename(a.to + "/" + name, aside);
  a.write(aside + "/shard-0.bin", std::string(64 + 36, 'x'));
  CHECK_FALSE(a.copy(name, made));
  CHECK(a.stored().empty());
  CHECK(a.copy(name, made));
  CHECK(a.stored() == Names{name});
}

TEST_CASE("Archiver: a damaged checkpoint -> reported, not copied; the next one is") {
  Archive a;
  const std::string bad = a.add(10), good = a.add(20);
  std::string content = a.read(a.checkpoints + "/" + bad + "/shard-0.bin");
  content[70] ^= 1;
  a.write(a.checkpoints + "/" + bad + "/shard-0.bin", content);
  const auto reported = a.work();
  REQUIRE(failure_in(reported) != nullptr);
  CHECK(failure_in(reported)->checkpoint == bad);
  CHECK(os::exists(a.to + "/" + good + "/manifest.json"));
  CHECK_FALSE(os::exists(a.to + "/" + bad));
  CHECK(a.stays[10]);
  CHECK_FALSE(a.stays[20]);
}

TEST_CASE(
    "Archiver: the archive is away -> reported once with what waits, nothing is made in its "
    "place") {
  Archive a;
  a.add(10);
  a.add(20);
  std::filesystem::remove(a.to);
  const auto reported = a.work();
  REQUIRE(reported.size() == 1);
  REQUIRE(failure_in(reported) != nullptr);
  CHECK(failure_in(reported)->waiting == 2);
  CHECK_FALSE(os::exists(a.to));
  CHECK(a.stays[10]);
  CHECK(a.stays[20]);
  CHECK_FALSE(a.stays[25]);
}

TEST_CASE(
    "Archiver: what has the name already -> another run's stays and is reported, a link does not "
    "count") {
  Archive a;
  const std::string name = a.add(10);
  std::filesystem::copy(a.checkpoints + "/" + name, a.to + "/" + name);
  auto m = watch::read_manifest(a.to + "/" + name);
  REQUIRE(m);
  m->run = "neighbour";
  a.write(a.to + "/" + name + "/manifest.json", to_json_text(*m));
  const auto reported = a.work();
  REQUIRE(failure_in(reported) != nullptr);
  CHECK(failure_in(reported)->why.find("neighbour") != std::string::npos);
  CHECK(a.stays[10]);
  CHECK(watch::read_manifest(a.to + "/" + name)->run == "neighbour");
}

TEST_CASE(
    "Archiver: a younger generation was minted -> its lead copies; leftovers of gone ones go") {
  Archive a;
  const std::string name = a.add(10);
  REQUIRE(os::make_directories(a.path + "/gen-000003"));
  CHECK(a.work().empty());
  CHECK(a.stored().empty());
  std::filesystem::remove(a.path + "/gen-000003");
  const std::string gone = a.to + "/archiving.run.step-000005.g000001.g000001";
  REQUIRE(os::make_directories(gone));
  for (const char* file : {"/shard-0.bin", "/copied.json", "/copied.json.1234"})
    a.write(gone + file, "left behind");
  REQUIRE(os::make_directories(a.to + "/archiving.other.step-000005.g000001.g000001"));
  (void)a.work();
  CHECK(a.stored() == Names{"archiving.other.step-000005.g000001.g000001", name});
}

TEST_CASE("Archiver: others may write the archive -> nothing is copied there, and that is said") {
  Archive a;
  const std::string name = a.add(10);
  REQUIRE(::chmod(a.to.c_str(), 0777) == 0);
  const auto reported = a.work();
  REQUIRE(failure_in(reported) != nullptr);
  CHECK(failure_in(reported)->why.find("others may write it") != std::string::npos);
  CHECK(a.stored().empty());
  CHECK(a.stays[10]);
  ArchiveCopy copy;
  CHECK_FALSE(a.copy(name, copy));
  REQUIRE(::chmod(a.to.c_str(), 01777) == 0);
  CHECK(failure_in(a.work()) == nullptr);
  CHECK(a.stored() == Names{name});
}

TEST_CASE("Archiver: what another user put under the name of a copy -> does not count") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: to be another user needs root");
    return;
  }
  Archive a;
  const std::string name = a.add(10);
  REQUIRE(::chmod(a.to.c_str(), 01777) == 0);
  std::filesystem::copy(a.checkpoints + "/" + name, a.to + "/" + name);
  REQUIRE(::lchown((a.to + "/" + name).c_str(), 65534, 65534) == 0);
  const auto reported = a.work();
  REQUIRE(failure_in(reported) != nullptr);
  CHECK(failure_in(reported)->why.find("belongs to") != std::string::npos);
  CHECK(a.stays[10]);
}

TEST_CASE(
    "Archiver: another user has names in a sticky archive -> the copies are made all the same") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: to be another user needs root");
    return;
  }
  Archive a;
  const std::string first = a.add(10), second = a.add(20);
  REQUIRE(::chmod(a.to.c_str(), 01777) == 0);
  Names planted{"archiving.run." + first + ".g000002", "archiving.run." + first + ".g999999",
                "archiving.run.step-000005.g000002.g000002", second};
  for (const std::string& name : planted) {
    REQUIRE(os::make_directories(a.to + "/" + name));
    REQUIRE(::chown((a.to + "/" + name).c_str(), 65534, 65534) == 0);
  }
  a.add(30);
  const auto reported = a.work();
  CHECK(os::exists(a.to + "/" + first + "/manifest.json"));
  CHECK(os::exists(a.to + "/step-000030.g000002/manifest.json"));
  REQUIRE(failure_in(reported) != nullptr);
  CHECK(failure_in(reported)->checkpoint == second);
  CHECK_FALSE(a.stays[10]);
  CHECK(a.stays[20]);
  planted.insert(planted.end(), {first, "step-000030.g000002"});
  std::sort(planted.begin(), planted.end());
  CHECK(a.stored() == planted);
}

TEST_CASE("Archiver: killed beside another user's folder of its name -> ours goes on, then goes") {
  Archive a;
  const std::string name = a.add(10), taken = "archiving.run." + name + ".g000002";
  a.write(a.to + "/" + taken, "no folder");
  REQUIRE(os::make_directories(a.to + "/" + taken + ".0a1b2c3d"));
  REQUIRE(os::make_directories(a.to + "/archiving.run.step-000005.g000002.g000002.0a1b2c3d"));
  (void)a.work();
  CHECK(a.stored() == Names{taken, name});
}
