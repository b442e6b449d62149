// What checkpoints.keep deletes, and what it must never touch.
#include "worker/agent/storage/pruner.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/files.hpp"
#include "tests/folder.hpp"
#include "wire/checkpoint_manifest.hpp"

using namespace stoker;
using namespace stoker::agent;
using stoker::testing::Folder;

namespace {

wire::CheckpointId id_of(std::uint64_t step, std::uint32_t generation = 1) {
  return {Iteration(step), Generation(generation)};
}

std::vector<wire::SurveyedCheckpoint> all_good(std::initializer_list<std::uint64_t> steps) {
  std::vector<wire::SurveyedCheckpoint> complete;
  for (const std::uint64_t step : steps) complete.push_back({id_of(step), true});
  return complete;
}

std::vector<std::uint64_t> steps_of(const std::vector<wire::CheckpointId>& ids) {
  std::vector<std::uint64_t> steps;
  for (const auto& id : ids) steps.push_back(id.iteration.value);
  return steps;
}
using Steps = std::vector<std::uint64_t>;

class RunFolder {
 public:
  RunFolder() {
    char name[] = "/tmp/stoker-prune-XXXXXX";
    path = ::mkdtemp(name);
    checkpoints = path + "/checkpoints";
    start.run = RunName("run");
    start.generation = Generation(2);
    start.lineage = {{Generation(1), Iteration(20)}, {Generation(2), wire::kNoBound}};
    start.orders.keep_last = 2;
    REQUIRE(os::make_directories(path + "/gen-000002"));
  }
  ~RunFolder() { std::filesystem::remove_all(path); }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  std::string add(std::uint64_t step, std::uint32_t generation, const std::string& run = "run") {
    const std::string name = wire::checkpoint_name(Iteration(step), Generation(generation));
    const std::string folder = checkpoints + "/" + name;
    REQUIRE(os::make_directories(folder));
    wire::Manifest m;
    m.run = run;
    m.iteration = Iteration(step);
    m.generation = Generation(generation);
    m.files = {{"shard-0.bin", 3, hex64(xxh3_64(std::string("abc")))}};
    write(name + "/shard-0.bin", "abc");
    write(name + "/manifest.json", to_json_text(m));
    return name;
  }
  void write(const std::string& name, const std::string& content) const {
    REQUIRE(os::replace_file(checkpoints + "/" + name, content, os::Durability::Cached));
  }
  [[nodiscard]] std::vector<std::string> names() const {
    return os::list_directory(checkpoints).value_or(std::vector<std::string>{});
  }
  // One pruning, as the lead does it after a save.
  std::vector<wire::AgentBody> prune(const std::set<wire::CheckpointId>& held = {}) {
    std::vector<wire::AgentBody> reported;
    Loop loop;
    Pruner pruner({loop, path, checkpoints, [held] { return held; }, must_stay,
                   [&reported](wire::AgentBody body) { reported.push_back(std::move(body)); }},
                  start);
    pruner.saved();
    const Instant end = monotonic_now() + 5s;
    while (pruner.busy() && monotonic_now() < end) loop.turn(20ms);
    CHECK_FALSE(pruner.busy());
    return reported;
  }

  std::string path, checkpoints;
  std::function<bool(const wire::CheckpointId&)> must_stay;
  wire::Start start;
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("choose_prunable: what a follower has not heard of -> kept") {
  const auto complete = all_good({10, 20, 30, 40, 50, 60});
  CHECK(steps_of(wire::choose_prunable(complete, {1, 0, {}, {{20, 0}}}, {})) == Steps{10});
  CHECK(steps_of(wire::choose_prunable(complete, {1, 0, {}, {{20, 30}}}, {})) == Steps{10, 20, 30});
}

TEST_CASE("choose_prunable: last, every and pin -> the rest, oldest first") {
  const auto complete = all_good({10, 20, 30, 40, 50, 60});
  CHECK(steps_of(wire::choose_prunable(complete, {2, 0, {}}, {})) == Steps{10, 20, 30, 40});
  CHECK(steps_of(wire::choose_prunable(complete, {2, 20, {}}, {})) == Steps{10, 30});
  CHECK(steps_of(wire::choose_prunable(complete, {2, 20, {10}}, {})) == Steps{30});
  CHECK(steps_of(wire::choose_prunable(complete, {1, 0, {}}, {id_of(30)})) ==
        Steps{10, 20, 40, 50});
  CHECK(wire::choose_prunable(complete, {6, 0, {}}, {}).empty());
  CHECK(wire::choose_prunable({}, {1, 0, {}}, {}).empty());
}

TEST_CASE("choose_prunable: keep.last 0 -> nothing, with any other key") {
  CHECK(wire::choose_prunable(all_good({10, 20}), {0, 20, {10}}, {}).empty());
}

TEST_CASE("choose_prunable: a damaged one -> it neither counts nor goes") {
  auto complete = all_good({10, 20, 30, 40});
  complete[2].good = false;
  CHECK(steps_of(wire::choose_prunable(complete, {2, 0, {}}, {})) == Steps{10});
  CHECK(steps_of(wire::choose_prunable(complete, {1, 0, {}}, {})) == Steps{10, 20});
}

TEST_CASE("choose_prunable: the newest is damaged -> nothing goes") {
  auto complete = all_good({10, 20, 30});
  complete[2].good = false;
  CHECK(wire::choose_prunable(complete, {1, 0, {}}, {}).empty());
}

TEST_CASE("Pruner: a save -> old ones of the ancestry go, it is reported") {
  RunFolder run;
  run.add(10, 1);
  run.add(20, 1);
  run.add(30, 2);
  run.add(40, 2);
  const auto reported = run.prune();
  CHECK(run.names() == Names{"step-000030.g000002", "step-000040.g000002"});
  REQUIRE(reported.size() == 1);
  const auto* deleted = std::get_if<wire::CheckpointsDeleted>(&reported[0]);
  REQUIRE(deleted != nullptr);
  CHECK(deleted->checkpoints == Names{"step-000010.g000001", "step-000020.g000001"});
}

TEST_CASE("Pruner: strangers -> other runs, other branches, links, unfinished ones stay") {
  RunFolder run;
  run.add(5, 1, "neighbour");
  run.add(30, 1);  // a late writer's: the ancestry of generation 1 ends at 20
  run.add(7, 9);
  const std::string damaged = run.add(8, 1);
  run.write(damaged + "/shard-0.bin", "abd");
  run.write("notes.txt", "mine");
  REQUIRE(os::make_directories(run.checkpoints + "/step-000009.g000001"));
  const std::string elsewhere = run.path + "/elsewhere";
  std::filesystem::rename(run.checkpoints + "/" + run.add(6, 1), elsewhere);
  std::filesystem::create_directory_symlink(elsewhere, run.checkpoints + "/step-000006.g000001");
  const auto before = run.names();
  run.add(10, 1);
  run.add(40, 2);
  run.add(50, 2);
  (void)run.prune();
  auto expected = before;
  expected.insert(expected.end(), {"step-000040.g000002", "step-000050.g000002"});
  std::sort(expected.begin(), expected.end());
  CHECK(run.names() == expected);
  CHECK(os::exists(elsewhere + "/manifest.json"));
}

TEST_CASE("Pruner: a start reads it, or the newest orders roll back to it -> it stays") {
  RunFolder run;
  for (const std::uint64_t step : {22, 24, 26, 28, 30}) run.add(step, 2);
  wire::Orders orders;
  orders.resume = {wire::ResumeMode::Exact, Iteration(24), Generation(2)};
  REQUIRE(os::make_directories(run.path + "/orders"));
  REQUIRE(os::replace_file(run.path + "/orders/000007.json", to_json_text(orders),
                           os::Durability::Cached));
  (void)run.prune({id_of(22, 2)});
  CHECK(run.names() == Names{"step-000022.g000002", "step-000024.g000002", "step-000028.g000002",
                             "step-000030.g000002"});
}

TEST_CASE("Pruner: newer orders pin others, as a spike began -> these stay") {
  RunFolder run;
  for (const std::uint64_t step : {22, 24, 26, 28, 30}) run.add(step, 2);
  run.start.orders.keep_pin = {22};
  wire::Orders orders;
  orders.keep_pin = {24, 26};
  REQUIRE(os::make_directories(run.path + "/orders"));
  REQUIRE(os::replace_file(run.path + "/orders/000007.json", to_json_text(orders),
                           os::Durability::Cached));
  (void)run.prune();
  CHECK(run.names() == Names{"step-000024.g000002", "step-000026.g000002", "step-000028.g000002",
                             "step-000030.g000002"});
}

TEST_CASE("Pruner: it is to be copied away, and is not yet -> it stays, the others go") {
  RunFolder run;
  for (const std::uint64_t step : {22, 24, 26, 28, 30}) run.add(step, 2);
  run.must_stay = [](const wire::CheckpointId& id) { return id == id_of(24, 2); };
  (void)run.prune();
  CHECK(run.names() == Names{"step-000024.g000002", "step-000028.g000002", "step-000030.g000002"});
}

TEST_CASE("Pruner: a younger generation was minted -> its lead decides, nothing goes") {
  RunFolder run;
  for (const std::uint64_t step : {22, 24, 26}) run.add(step, 2);
  REQUIRE(os::make_directories(run.path + "/gen-000003"));
  (void)run.prune();
  CHECK(run.names().size() == 3);
}

TEST_CASE("Pruner: a foreign format -> nothing is ever deleted") {
  RunFolder run;
  run.start.orders.checkpoint_format = "megatron";
  for (const std::uint64_t step : {22, 24, 26}) run.add(step, 2);
  CHECK(run.prune().empty());
  CHECK(run.names().size() == 3);
}

TEST_CASE(
    "Pruner: a removal that was killed -> the name is no checkpoint's, the next one ends it") {
  RunFolder run;
  for (const std::uint64_t step : {22, 24, 26}) run.add(step, 2);
  const std::string name = run.add(12, 1);
  std::filesystem::rename(run.checkpoints + "/" + name, run.checkpoints + "/pruned." + name);
  CHECK_FALSE(wire::parse_checkpoint_name("pruned." + name));
  (void)run.prune();
  CHECK(run.names() == Names{"step-000024.g000002", "step-000026.g000002"});
}

TEST_CASE("Pruner: a link with the name of a leftover -> what it leads to stays") {
  const Folder folder;
  std::filesystem::create_directories(folder / "other");
  std::filesystem::create_directories(folder / "checkpoints");
  folder.write("other/" + std::string(wire::kManifestName), "{}");
  const std::string name = "pruned." + wire::checkpoint_name(Iteration(5), Generation(1));
  std::filesystem::create_directory_symlink(folder / "other", folder / ("checkpoints/" + name));
  remove_pruned_leftovers(folder / "checkpoints", "demo");
  CHECK(std::filesystem::exists(folder / ("other/" + std::string(wire::kManifestName))));
}

TEST_CASE(
    "Pruner: another user's checkpoint, newer than all -> it neither counts nor goes, once said") {
  if (::geteuid() != 0) return;  // to make it another user's
  constexpr uid_t kStranger = 54321;
  for (const char* given : {"", "/manifest.json"}) {  // one of them is enough
    RunFolder run;
    for (const std::uint64_t step : {22, 24, 26, 90, 95}) run.add(step, 2);
    for (const char* name : {"step-000090.g000002", "step-000095.g000002"})
      REQUIRE(::chown((run.checkpoints + "/" + name + given).c_str(), kStranger, kStranger) == 0);
    const auto reported = run.prune();
    CHECK(run.names() == Names{"step-000024.g000002", "step-000026.g000002", "step-000090.g000002",
                               "step-000095.g000002"});
    REQUIRE(reported.size() == 2);
    const auto* notice = std::get_if<wire::Notice>(&reported[0]);
    REQUIRE(notice != nullptr);
    CHECK(notice->text.find("uid 54321") != std::string::npos);
  }
}

TEST_CASE("Pruner: the leftover's name is another user's -> the checkpoint goes all the same") {
  RunFolder run;
  for (const std::uint64_t step : {22, 24, 26}) run.add(step, 2);
  const std::string planted = run.checkpoints + "/pruned.step-000022.g000002";
  REQUIRE(os::make_directories(planted));
  run.write("pruned.step-000022.g000002/theirs", "x");
  if (::geteuid() == 0) REQUIRE(::chown(planted.c_str(), 54321, 54321) == 0);
  (void)run.prune();
  const auto names = run.names();
  CHECK(std::count(names.begin(), names.end(), "step-000022.g000002") == 0);
  CHECK(std::count(names.begin(), names.end(), "step-000024.g000002") == 1);
  if (::geteuid() == 0) CHECK(os::exists(planted + "/theirs"));
}

TEST_CASE("remove_checkpoint: a folder is inside it -> that one stays, the manifest is gone") {
  RunFolder run;
  const std::string name = run.add(22, 2);
  REQUIRE(os::make_directories(run.checkpoints + "/" + name + "/inside"));
  run.write(name + "/inside/file", "mine");
  CHECK_FALSE(remove_checkpoint(run.checkpoints, id_of(22, 2)));
  CHECK(os::exists(run.checkpoints + "/pruned." + name + "/inside/file"));
  CHECK_FALSE(os::exists(run.checkpoints + "/pruned." + name + "/manifest.json"));
}

TEST_CASE(
    "Pruner: folders renamed to a leftover's name -> other runs' checkpoints and other files "
    "stay") {
  RunFolder run;
  const std::string other =
      run.checkpoints + "/pruned." + wire::checkpoint_name(Iteration(5), Generation(1));
  std::filesystem::rename(run.checkpoints + "/" + run.add(22, 2, "another"), other);
  const std::string texts = run.checkpoints + "/pruned.step-000006.g000001";
  REQUIRE(os::make_directories(texts));
  run.write("pruned.step-000006.g000001/paper.tex", "mine");
  remove_pruned_leftovers(run.checkpoints, "run");
  CHECK(os::exists(other + "/manifest.json"));
  CHECK(os::exists(texts + "/paper.tex"));
}
