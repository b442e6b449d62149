// Checkpoints across meshes, ranks as threads: saved on one mesh, loaded on another, every element
// of every tensor is where it belongs, and saved again the digest is the same.
#include <atomic>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <thread>

#include "common/hash.hpp"
#include "common/os/files.hpp"
#include "recipe/schedule/generators.hpp"
#include "tests/folder.hpp"
#include "tests/train/known_state.hpp"
#include "watch/checkpoint_scan.hpp"
#include "worker/train/checkpoint/load.hpp"
#include "worker/train/checkpoint/save.hpp"
#include "worker/train/comm/fake_comm.hpp"
#include "worker/train/comm/self_comm.hpp"

using namespace stoker;
using namespace stoker::train;

namespace {

using Kind = recipe::ScheduleKind;

struct MeshCase {
  Mesh mesh;
  Kind kind = Kind::OneFOneB;
  std::uint32_t chunks = 1;
  bool zero = false;
};

ModelLayout layout_of(const MeshCase& shape) {
  const auto schedule =
      recipe::make_schedule(
          {shape.kind, shape.mesh.pp, recipe::chunks_of(shape.kind, shape.chunks), shape.mesh.pp})
          .value();
  return {small_model(), shape.mesh, schedule.rank_of_stage};
}

SaveRequest request_for(const std::string& directory, const ModelLayout& layout,
                        std::uint64_t iteration) {
  SaveRequest request;
  request.directory = directory;
  request.manifest.iteration = Iteration(iteration);
  request.manifest.training = Json{{"position", Position{Iteration(iteration)}}};
  request.manifest.training["position"]["optimizer_steps"] = 7;
  request.attempt = Attempt(1);
  request.deadline = 60s;
  request.layout = layout;
  return request;
}

template <class F>
void on_mesh(const Mesh& mesh, F f) {
  FakeHub hub(mesh);
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < mesh.world(); ++r)
    threads.emplace_back([&, r] {
      FakeComm comm(hub, r);
      f(comm);
    });
  for (auto& thread : threads) thread.join();
}

std::string save_on(const MeshCase& shape, const std::string& directory, bool asynchronous) {
  const ModelLayout layout = layout_of(shape);
  std::string path;
  on_mesh(shape.mesh, [&](Comm& comm) {
    auto state = state_on(layout, comm, shape.zero);
    for_each_element(state, 5, [](float& is, float want) { is = want; });
    state.steps = 7;
    Staging staging;
    auto save = PendingSave::begin(comm, state, request_for(directory, layout, 5),
                                   asynchronous ? &staging : nullptr);
    REQUIRE(save);
    const auto report = (*save)->finish(comm);
    REQUIRE(report);
    CHECK_MESSAGE(report->saved, report->why);
    if (comm.rank() == 0) path = report->path;
  });
  return path;
}

// Loads, looks at every element, saves again beside it.
void load_on(const MeshCase& shape, const std::string& path, const std::string& again) {
  const ModelLayout layout = layout_of(shape);
  const auto manifest = watch::read_manifest(path).value();
  on_mesh(shape.mesh, [&](Comm& comm) {
    auto state = state_on(layout, comm, shape.zero);
    bool peer_lost = false;
    const Status loaded =
        load_checkpoint(comm, state, layout.whole(), {path, manifest}, 60s, peer_lost);
    REQUIRE_MESSAGE(loaded, loaded.error().message());
    std::size_t wrong = 0;
    for_each_element(state, 5, [&](float is, float want) { wrong += is == want ? 0 : 1; });
    CHECK(wrong == 0);
    CHECK(state.steps == 7);
    auto save = PendingSave::begin(comm, state, request_for(again, layout, 5), nullptr);
    REQUIRE(save);
    CHECK((*save)->finish(comm)->saved);
  });
  CHECK(watch::read_manifest(again + "/step-000005.g000000").value().digest == manifest.digest);
}

const MeshCase kMeshCases[] = {
    {{1, 1, 1}},
    {{2, 1, 1}},
    {{4, 1, 1}},
    {{1, 4, 1}},
    {{1, 1, 4}},
    {{2, 2, 1}},
    {{1, 2, 2}, Kind::ZbV},
    {{2, 2, 2}, Kind::Interleaved, 2},
    {{1, 1, 3}, Kind::OneFOneB, 1, true},
    {{2, 1, 2}, Kind::OneFOneB, 1, true},
};

}  // namespace

TEST_CASE("checkpoint: every mesh to every other -> the same logical tensors to the bit") {
  for (const MeshCase& from : kMeshCases) {
    const stoker::testing::Folder folder;
    const std::string path = save_on(from, folder.path + "/a", from.mesh.dp > 1);
    int number = 0;
    for (const MeshCase& to : kMeshCases)
      load_on(to, path, folder.path + "/b" + std::to_string(number++));
  }
}

TEST_CASE("checkpoint: a manifest of version 1 (ranges of whole tensors) -> loads on any mesh") {
  const stoker::testing::Folder folder;
  const std::string path = save_on({{1, 1, 3}}, folder.path + "/a", false);
  auto manifest = Json::parse(os::read_file(path + "/manifest.json", 1 << 24).value());
  manifest["version"] = 1;
  for (auto& range : manifest["ranges"]) {
    CHECK(range["box"].is_null());
    range.erase("box");
  }
  REQUIRE(os::replace_file(path + "/manifest.json", manifest.dump(), os::Durability::Cached));
  load_on({{2, 2, 1}}, path, folder.path + "/b");
}

TEST_CASE("check_tensors: boxes that overlap, leave a hole or do not fit -> refused, named") {
  const stoker::testing::Folder folder;
  const std::string path = save_on({{2, 1, 1}}, folder.path + "/a", false);
  const auto good = watch::read_manifest(path).value();
  const ParameterTable whole = layout_of({{1, 1, 1}}).whole();
  CHECK(check_tensors(good, whole));
  const auto refused = [&](auto change) {
    wire::Manifest m = good;
    for (auto& range : m.ranges)
      if (range.tensor == "blocks.1.mlp.out.weight" && range.part == "moment1" &&
          range.box->first[1] > 0)
        change(m, range);
    const Status bad = check_tensors(m, whole);
    return bad ? "accepted" : bad.error().message();
  };
  const auto says = [](const std::string& text, const char* what) {
    CHECK_MESSAGE(text.find(what) != std::string::npos, text);
    CHECK_MESSAGE(text.find("blocks.1.mlp.out.weight moment1") != std::string::npos, text);
  };
  says(refused([](auto&, auto& r) { --r.box->first[1]; }), "overlap");
  says(refused([](auto&, auto& r) { ++r.box->first[1]; }), "is not inside the tensor");
  says(refused([](auto&, auto& r) { --r.box->extent[1], r.count -= 16; }), "a part is missing");
  says(refused([](auto&, auto& r) { r.count -= 1; }), "of 160 elements");
  says(refused([](auto&, auto& r) { r.box->first.clear(); }), "is not inside the tensor");
}

TEST_CASE(
    "load: a shard that another one replaced after it was verified -> refused by the digest") {
  const stoker::testing::Folder folder;
  const std::string path = save_on({{2, 1, 1}}, folder.path + "/a", false);
  const std::string file = path + "/shard-00001-of-00002.bin";
  std::string content = os::read_file(file, 1 << 24).value();
  content[content.size() / 2] ^= 1;
  REQUIRE(os::replace_file(file, content, os::Durability::Cached));
  const auto manifest = watch::read_manifest(path).value();
  const ModelLayout layout = layout_of({{1, 1, 2}});
  on_mesh(layout.mesh, [&](Comm& comm) {
    auto state = FlatState::allocate(layout.of_rank(comm.rank()), recipe::Dtype::F32).value();
    bool peer_lost = false;
    const Status loaded =
        load_checkpoint(comm, state, layout.whole(), {path, manifest}, 60s, peer_lost);
    REQUIRE_FALSE(loaded);
    CHECK(loaded.error().message().find("digest of what was loaded") != std::string::npos);
    CHECK_FALSE(peer_lost);
  });
}

TEST_CASE("Staging: asynchronous saves in a row -> each its own state, from the same memory") {
  const stoker::testing::Folder folder;
  const ModelLayout layout = layout_of({{1, 1, 1}});
  SelfComm comm;
  auto state = FlatState::allocate(layout.whole(), recipe::Dtype::F32).value();
  const FlatRange range{0, state.table().flat_size};
  auto* masters = static_cast<float*>(state.part(StatePart::Parameter).data);
  Staging staging;
  staging.prepare(state, comm.mesh(), 0);
  const FlatState* room = staging.copy(state, range);
  for (const std::uint64_t iteration : {1, 2, 3}) {
    masters[0] = static_cast<float>(iteration);
    const std::string want = state_digest(comm, state, 60s).value();
    auto save =
        PendingSave::begin(comm, state, request_for(folder.path, layout, iteration), &staging);
    REQUIRE(save);
    masters[0] = -1;  // the training goes on
    const auto report = (*save)->finish(comm);
    REQUIRE(report);
    CHECK(report->saved);
    CHECK(watch::read_manifest(report->path).value().digest == want);
    CHECK(staging.copy(state, range) == room);
  }
}
