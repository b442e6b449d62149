// Copies of one tensor on several ranks: equal, or the tensor, its first element and the ranks are
// named; and repaired.
#include "worker/train/state/replicas.hpp"

#include <doctest/doctest.h>
#include <string>
#include <thread>
#include <vector>

#include "worker/train/comm/fake_comm.hpp"
#include "worker/train/state/zero.hpp"

using namespace stoker;
using namespace stoker::train;
using recipe::Dtype;

namespace {

struct Change {  // of one element on one rank
  std::uint32_t rank;
  std::string tensor;
  StatePart part = StatePart::Parameter;
  std::size_t element = 3;
};

struct Case {
  Mesh mesh;
  std::vector<Change> changes;
  Dtype dtype = Dtype::F32;
  bool zero = false;
};

struct Outcome {  // of a rank
  std::optional<Drift> before, after;
  std::uint64_t good = 0, state = 0;  // digests of the state before the changes, and in the end
};

ModelLayout layout_of(const Mesh& mesh) {
  recipe::ModelConfig model;
  model.layers = 2, model.hidden = 16, model.heads = 2, model.ffn = 32;
  model.sequence = 4, model.vocabulary = 300;
  std::vector<std::uint32_t> stages;
  for (std::uint32_t p = 0; p < mesh.pp; ++p) stages.push_back(p);
  return {model, mesh, stages};
}

float* element_of(FlatState& state, StatePart part, std::size_t at) {
  return static_cast<float*>(state.part(part).data) + at;
}

FlatState state_of(const Case& c, const ModelLayout& layout, std::uint32_t rank) {
  ParameterTable table = layout.of_rank(rank);
  const FlatRange owned = c.zero ? own_range(table, c.mesh, rank) : FlatRange{0, table.flat_size};
  auto state = std::move(FlatState::allocate(std::move(table), c.dtype, owned).value());
  state.initialise(7);
  for (const StatePart moment : {StatePart::Moment1, StatePart::Moment2})
    for (const Piece& piece : pieces_of(state.table(), state.owned()))
      for (std::size_t i = piece.first; i < piece.first + piece.count; ++i)
        *element_of(state, moment, piece.parameter->offset + i) =
            static_cast<float>(i % 97) - 40.5F;
  return state;
}

void change(FlatState& state, const Case& c, std::uint32_t rank) {
  for (const Change& change : c.changes)
    for (const Parameter& p : state.table().parameters) {
      if (change.rank != rank || change.tensor != p.name) continue;
      if (c.dtype == Dtype::Bf16 && c.zero)  // what is compared are the model's own parameters
        static_cast<kernels::Bf16*>(state.parameters())[p.offset + change.element] =
            kernels::to_bf16(77.F);
      else
        *element_of(state, change.part, p.offset + change.element) += 1e-3F;
    }
}

std::vector<Outcome> outcomes_of(const Case& c, bool repair) {
  const ModelLayout layout = layout_of(c.mesh);
  FakeHub hub(c.mesh);
  std::vector<Outcome> outcomes(c.mesh.world());
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < c.mesh.world(); ++r)
    threads.emplace_back([&, r] {
      FakeComm comm(hub, r);
      FlatState state = state_of(c, layout, r);
      outcomes[r].good = state.digest(state.owned(), true).low;
      change(state, c, r);
      outcomes[r].before = find_drift(comm, state, layout.ties_ranks(), 2s).value();
      if (repair) {
        CHECK(repair_drift(comm, state, layout.ties_ranks(), 2s));
        outcomes[r].after = find_drift(comm, state, layout.ties_ranks(), 2s).value();
      }
      outcomes[r].state = state.digest(state.owned(), true).low;
    });
  for (auto& thread : threads) thread.join();
  return outcomes;
}

// What all ranks say, "" when all is equal.
std::string said_on(const Case& c) {
  const auto outcomes = outcomes_of(c, false);
  std::string text = outcomes[0].before ? outcomes[0].before->text() : "";
  for (const Outcome& o : outcomes) CHECK((o.before ? o.before->text() : "") == text);
  return text;
}

// After the repair every rank has the state that it had before the changes.
void check_repaired(const Case& c) {
  for (const Outcome& o : outcomes_of(c, true)) {
    CHECK(o.before);
    CHECK_FALSE(o.after);
    CHECK(o.state == o.good);
  }
}

}  // namespace

TEST_CASE("replicas: equal on every mesh -> nothing") {
  for (const Mesh mesh : {Mesh{1, 1, 1}, Mesh{1, 1, 3}, Mesh{2, 2, 2}}) {
    CHECK(said_on({mesh, {}}) == "");
    CHECK(said_on({mesh, {}, Dtype::Bf16, true}) == "");
  }
}

TEST_CASE("replicas: one moment differs on one of three ranks -> tensor, element and rank") {
  const Case c{{1, 1, 3}, {{2, "blocks.1.mlp.in.weight", StatePart::Moment2, 37}}};
  CHECK(said_on(c) ==
        "blocks.1.mlp.in.weight[2, 5]: its moment2 on rank 2 differs from that on rank 0 and most "
        "others");
  check_repaired(c);
}

TEST_CASE("replicas: rank 0 is the one that differs -> the majority names it, and repairs it") {
  const Case c{{1, 1, 3}, {{0, "final_norm.bias"}}};
  CHECK(said_on(c) ==
        "final_norm.bias[3]: its parameter on rank 0 differs from that on rank 1 and most others");
  check_repaired(c);
}

TEST_CASE("replicas: a norm differs on tensor rank 1 -> named on all ranks, repaired by rank 0") {
  const Case c{{2, 2, 1}, {{1, "blocks.0.norm1.weight"}}};
  CHECK(said_on(c) ==
        "blocks.0.norm1.weight[3]: its parameter on rank 1 differs from that on rank 0");
  check_repaired(c);
}

TEST_CASE(
    "replicas: several tensors, the tied embedding, bf16 -> the first is named, all repaired") {
  CHECK(said_on({{2, 1, 2}, {{3, "blocks.0.norm1.weight"}, {3, "blocks.1.norm2.bias"}}}) ==
        "blocks.0.norm1.weight[3]: its parameter on rank 3 differs from that on rank 1; 2 tensors "
        "differ");
  check_repaired({{2, 1, 2}, {{3, "blocks.0.norm1.weight"}, {3, "blocks.1.norm2.bias"}}});
  const Case tied{{1, 2, 1}, {{1, "embedding.word", StatePart::Parameter, 100}}};
  CHECK(said_on(tied) ==
        "embedding.word[6, 4]: its parameter on rank 1 differs from that on rank 0");
  check_repaired(tied);
  check_repaired({{2, 1, 2}, {{3, "blocks.0.norm1.weight"}}, Dtype::Bf16});
}

TEST_CASE("replicas: with ZeRO parameters are compared, and taken from their owners") {
  const Case c{{1, 1, 2}, {{1, "embedding.position"}}, Dtype::Bf16, true};
  CHECK(said_on(c) ==
        "embedding.position[0, 3]: its parameter on rank 1 differs from that on rank 0");
  check_repaired(c);
  check_repaired(
      {{2, 1, 2}, {{1, "blocks.0.norm1.weight"}, {3, "blocks.0.norm1.weight"}}, Dtype::F32, true});
}
