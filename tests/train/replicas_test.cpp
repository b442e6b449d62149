// Copies of one tensor on several ranks: equal, or the ranks that differ are named.
#include "worker/train/state/replicas.hpp"

#include <doctest/doctest.h>
#include <string>
#include <thread>
#include <vector>

#include "worker/train/comm/fake_comm.hpp"

using namespace stoker;
using namespace stoker::train;

namespace {

struct Change {  // of one element on one rank
  std::uint32_t rank;
  std::string tensor;
  StatePart part;
};

// What each rank of the mesh says, "" when all is equal.
std::vector<std::string> said_on(const Mesh& mesh, const std::vector<Change>& changes) {
  recipe::ModelConfig model;
  model.layers = 2, model.hidden = 16, model.heads = 2, model.ffn = 32;
  model.sequence = 4, model.vocabulary = 300;
  std::vector<std::uint32_t> stages;
  for (std::uint32_t p = 0; p < mesh.pp; ++p) stages.push_back(p);
  const ModelLayout layout{model, mesh, stages};
  FakeHub hub(mesh);
  std::vector<std::string> said(mesh.world());
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < mesh.world(); ++r)
    threads.emplace_back([&, r] {
      FakeComm comm(hub, r);
      auto state = FlatState::allocate(layout.of_rank(r), recipe::Dtype::F32).value();
      state.initialise(7);
      for (const Change& change : changes)
        for (const Parameter& p : state.table().parameters)
          if (change.rank == r && change.tensor == p.name)
            static_cast<float*>(state.part(change.part).data)[p.offset + 3] += 1e-6F;
      const Status same = compare_replicas(comm, state, layout.ties_ranks(), 2s);
      if (!same) said[r] = same.error().message();
    });
  for (auto& thread : threads) thread.join();
  return said;
}

}  // namespace

TEST_CASE("replicas: equal on every mesh -> no Error") {
  for (const Mesh mesh : {Mesh{1, 1, 1}, Mesh{1, 1, 3}, Mesh{2, 2, 2}})
    for (const std::string& text : said_on(mesh, {})) CHECK(text == "");
}

TEST_CASE("replicas: one moment differs on a data-parallel rank -> the tensor and the ranks") {
  for (const std::string& text :
       said_on({1, 1, 3}, {{2, "blocks.1.mlp.in.weight", StatePart::Moment2}}))
    CHECK(text.find("blocks.1.mlp.in.weight: ranks 0 and 2 hold different bits") == 0);
}

TEST_CASE("replicas: a norm differs on tensor rank 1 -> the tensor and the ranks") {
  for (const std::string& text :
       said_on({2, 1, 1}, {{1, "blocks.0.norm1.weight", StatePart::Parameter}}))
    CHECK(text.find("blocks.0.norm1.weight: ranks 0 and 1 hold different bits") == 0);
}
