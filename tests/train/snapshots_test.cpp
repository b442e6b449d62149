// Snapshots in memory, ranks as threads and slots as files: what was copied comes back on every
// mesh, also to a node that had nothing, and what is not whole, not ours or not the same is refused
// by all ranks alike.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/files.hpp"
#include "recipe/schedule/generators.hpp"
#include "tests/folder.hpp"
#include "tests/train/known_state.hpp"
#include "worker/train/comm/fake_comm.hpp"
#include "worker/train/memory/restore.hpp"

using namespace stoker;
using namespace stoker::train;
using stoker::testing::Folder;

namespace {

struct Case {
  Mesh mesh;
  bool zero = false;
  std::uint32_t local = 1;  // ranks of a node
  recipe::Dtype dtype = recipe::Dtype::F32;
};

FlatState state_of(const Case& c, const Comm& comm, std::uint64_t hidden = 16) {
  const auto schedule =
      recipe::make_schedule({recipe::ScheduleKind::OneFOneB, c.mesh.pp, 1, c.mesh.pp}).value();
  const ModelLayout layout{small_model(hidden), c.mesh, schedule.rank_of_stage};
  return state_on(layout, comm, c.zero, c.dtype);
}

wire::Manifest manifest_at(std::uint64_t iteration) {
  wire::Manifest m;
  m.generation = Generation(3);
  m.iteration = Iteration(iteration);
  Position position{Iteration(iteration)};
  position.optimizer_steps = iteration + 100;
  m.training = Json{{"position", position}};
  return m;
}

// The nodes with their slots, which outlive the ranks.
class Nodes {
 public:
  explicit Nodes(Case c) : case_(c) {
    for (std::uint32_t r = 0; r < c.mesh.world(); ++r) renew(r);
  }

  [[nodiscard]] std::string slot(std::uint32_t rank, std::size_t index) const {
    return folder_ / fmt::format("{}.{}", rank, index);
  }
  void renew(std::uint32_t rank) const {
    for (std::size_t i = 0; i < wire::kSlotsOfRank; ++i) {
      folder_.write(fmt::format("{}.{}", rank, i), "");
      ::chmod(slot(rank, i).c_str(), 0600);
    }
  }
  void lose(std::uint32_t node) const {
    for (std::uint32_t l = 0; l < case_.local; ++l) renew(node * case_.local + l);
  }

  template <class F>
  void attempt(std::uint32_t number, F f) const {
    FakeHub hub(case_.mesh), beside(Mesh{1, 1, case_.mesh.world()});
    std::vector<std::thread> threads;
    for (std::uint32_t r = 0; r < case_.mesh.world(); ++r)
      threads.emplace_back([&, r] {
        FakeComm comm(hub, r);
        RankEnvironment e;
        e.rank = r, e.world = case_.mesh.world(), e.local_world = case_.local;
        e.generation = Generation(3), e.attempt = Attempt(number);
        for (std::size_t i = 0; i < wire::kSlotsOfRank; ++i) e.memory.push_back(slot(r, i));
        FlatState state = state_of(case_, comm, hidden);
        auto opened = Snapshots::open(
            {comm, e, state, 10, 60s,
             [&] { return Result<std::unique_ptr<Comm>>(std::make_unique<FakeComm>(beside, r)); }});
        REQUIRE(opened);
        f(comm, state, opened->snapshots.get());
      });
    for (auto& thread : threads) thread.join();
  }

  // Iterations of one attempt, each with a snapshot.
  void train(std::uint32_t number, const std::vector<std::uint64_t>& iterations) const {
    attempt(number, [&](Comm&, FlatState& state, Snapshots* snapshots) {
      REQUIRE(snapshots != nullptr);
      for (const std::uint64_t iteration : iterations) {
        for_each_element(state, iteration, [](float& is, float want) { is = want; });
        snapshots->begin(manifest_at(iteration), false);
        CHECK(snapshots->finish().has_value());
      }
    });
  }

  // "" = all ranks have it again, every element.
  std::string restore(std::uint32_t number, wire::SnapshotId id,
                      const std::vector<std::uint64_t>& then = {}) const {
    std::mutex mutex;
    std::set<std::string> answers;
    attempt(number, [&](Comm& comm, FlatState& state, Snapshots* snapshots) {
      REQUIRE(snapshots != nullptr);
      bool peer_lost = false;
      const auto restored =
          restore_snapshot(comm, state, *snapshots, {id, Generation(3)}, 60s, peer_lost);
      std::string answer = restored ? "" : restored.error().message();
      if (restored) {
        std::size_t wrong = 0;
        for_each_element(state, id.iteration.value,
                         [&](float is, float want) { wrong += is == want ? 0 : 1; });
        CHECK(wrong == 0);
        CHECK(state.steps == id.iteration.value + 100);
        CHECK(restored->position.iteration == id.iteration);
      }
      CHECK(!peer_lost);
      for (const std::uint64_t iteration : then) {
        for_each_element(state, iteration, [](float& is, float want) { is = want; });
        snapshots->begin(manifest_at(iteration), false);
        CHECK(snapshots->finish().has_value());
      }
      const std::lock_guard lock(mutex);
      answers.insert(answer);
    });
    REQUIRE(answers.size() == 1);
    return *answers.begin();
  }

  void write_into(std::uint32_t rank, std::size_t index, std::uint64_t at, char byte) const {
    const os::Fd fd(::open(slot(rank, index).c_str(), O_WRONLY | O_CLOEXEC));
    CHECK(::pwrite(fd.get(), &byte, 1, static_cast<off_t>(at)) == 1);
  }
  [[nodiscard]] std::uint64_t iteration_in(std::uint32_t rank, std::size_t index) const {
    const auto opened = Slot::open(slot(rank, index));
    const auto head = opened ? opened->whole() : std::nullopt;
    return head ? head->held.iteration.value : 0;
  }

  std::uint64_t hidden = 16;

 private:
  Case case_;
  Folder folder_;
};

constexpr wire::SnapshotId at(std::uint32_t attempt, std::uint64_t iteration) {
  return {Attempt(attempt), Iteration(iteration)};
}

}  // namespace

TEST_CASE("snapshots: every mesh -> all elements come back, also without any one node") {
  for (const Case& c :
       {Case{{1, 1, 1}}, Case{{1, 1, 4}, false, 2}, Case{{1, 1, 3}, true, 1},
        Case{{2, 2, 1}, false, 2}, Case{{2, 1, 2}, true, 2}, Case{{2, 2, 2}, false, 2},
        Case{{1, 2, 2}, true, 1}, Case{{1, 1, 2}, true, 1, recipe::Dtype::Bf16}}) {
    CAPTURE(c.mesh.tp);
    CAPTURE(c.mesh.pp);
    CAPTURE(c.mesh.dp);
    const Nodes nodes(c);
    nodes.train(1, {10, 20});
    CHECK(nodes.restore(2, at(1, 20)).empty());
    CHECK(nodes.restore(2, at(1, 10)).empty());
    for (std::uint32_t node = 0; node < c.mesh.world() / c.local && c.mesh.world() > c.local;
         ++node) {
      const Nodes others(c);
      others.train(1, {10});
      others.lose(node);
      CHECK(others.restore(2, at(1, 10)).empty());
    }
  }
}

TEST_CASE("snapshots: a node and its partner are lost -> all ranks say which shard is missing") {
  const Nodes nodes(Case{{1, 1, 3}});
  nodes.train(1, {10});
  nodes.lose(1);
  nodes.lose(2);
  CHECK(nodes.restore(2, at(1, 10)).find("the shard of rank 1 is in no node's memory") !=
        std::string::npos);
}

TEST_CASE("snapshots: a rank is killed in a copy -> that slot does not count, the other one does") {
  const Nodes nodes(Case{{1, 1, 1}});
  nodes.train(1, {10, 20});
  nodes.write_into(0, 1, wire::kSlotState, static_cast<char>(wire::SlotState::Writing));
  CHECK(nodes.restore(2, at(1, 20)).find("in no node's memory") != std::string::npos);
  CHECK(nodes.restore(2, at(1, 10)).empty());
}

TEST_CASE("snapshots: one changed byte of content, manifest or header -> refused by all ranks") {
  for (const std::uint64_t place : {std::uint64_t{40}, wire::kSlotHeader + 99}) {
    const Nodes nodes(Case{{1, 1, 2}, false, 2});
    nodes.train(1, {10});
    nodes.write_into(1, 0, place, 1);
    CAPTURE(place);
    CHECK(!nodes.restore(2, at(1, 10)).empty());
  }
}

TEST_CASE("snapshots: what is whole on all ranks is not written over") {
  const Nodes nodes(Case{{1, 1, 2}});
  nodes.train(1, {10, 20, 30});
  CHECK(nodes.iteration_in(0, 0) == 30);
  CHECK(nodes.iteration_in(0, 1) == 20);
  // Rank 1 had not come to 30: all go back to 20, and 30 of the new attempt goes over the old 30.
  nodes.write_into(1, 0, wire::kSlotState, static_cast<char>(wire::SlotState::Writing));
  CHECK(nodes.restore(2, at(1, 20), {30}).empty());
  for (const std::uint32_t rank : {0u, 1u}) {
    CHECK(nodes.iteration_in(rank, 0) == 30);
    CHECK(nodes.iteration_in(rank, 1) == 20);
    CHECK(nodes.iteration_in(rank, 2) == 30);
    CHECK(nodes.iteration_in(rank, 3) == 20);
  }
  CHECK(nodes.restore(3, at(2, 30)).find("shard") == std::string::npos);
}

TEST_CASE("snapshots: another model, attempt or generation -> not taken") {
  Nodes nodes(Case{{1, 1, 2}});
  nodes.train(1, {10});
  CHECK(nodes.restore(3, at(2, 10)).find("in no node's memory") != std::string::npos);
  nodes.hidden = 20;
  CHECK(nodes.restore(2, at(1, 10)).find("bytes instead of") != std::string::npos);
}

TEST_CASE("snapshots: memory that others may open, or no memory of an agent -> no snapshots") {
  const Nodes nodes(Case{{1, 1, 2}});
  ::chmod(nodes.slot(1, 2).c_str(), 0644);
  nodes.attempt(1, [](Comm&, FlatState&, Snapshots* snapshots) { CHECK(snapshots == nullptr); });
  ::chmod(nodes.slot(1, 2).c_str(), 0600);
  std::filesystem::remove(nodes.slot(0, 0));
  std::filesystem::create_directory(nodes.slot(0, 0));
  nodes.attempt(1, [](Comm&, FlatState&, Snapshots* snapshots) { CHECK(snapshots == nullptr); });
}

TEST_CASE("slot: numbers that do not fit its size, or another version -> nothing is in it") {
  wire::SlotHead head;
  head.state = wire::SlotState::Complete;
  head.held = {Generation(1), Attempt(2), Iteration(30), 1, 4};
  head.shard_bytes = 1000, head.manifest_bytes = 24, head.digest = 77;
  auto numbers = wire::encode_slot(head);
  const auto decode = [&](std::uint64_t size) {
    return wire::decode_slot({numbers.data(), numbers.size()}, size);
  };
  REQUIRE(decode(wire::kSlotHeader + 1024));
  CHECK(decode(wire::kSlotHeader + 1024)->held == head.held);
  CHECK(!decode(wire::kSlotHeader + 1023));
  CHECK(!decode(100));
  head.shard_bytes = UINT64_MAX - 8;
  numbers = wire::encode_slot(head);
  CHECK(!decode(wire::kSlotHeader + 1024));
  head.shard_bytes = 1000, head.held.shard = 4;
  numbers = wire::encode_slot(head);
  CHECK(!decode(wire::kSlotHeader + 1024));
  head.held.shard = 1;
  numbers = wire::encode_slot(head);
  numbers[8] = 2;
  CHECK(!decode(wire::kSlotHeader + 1024));
}
