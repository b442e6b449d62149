// Norms on request: every element counts once on every mesh, and the groups make up the whole.
#include "worker/train/loop/norms.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <thread>

#include "worker/train/comm/fake_comm.hpp"
#include "worker/train/loop/gradient_sums.hpp"

using namespace stoker;
using namespace stoker::train;

namespace {

// The gradient of an element is a number of its own, a third of them 0.
Norms measured_on(Mesh mesh, bool zero, double* whole = nullptr) {
  recipe::ModelConfig model;
  model.layers = 2, model.hidden = 16, model.heads = 2, model.ffn = 32;
  model.sequence = 4, model.vocabulary = 300;
  std::vector<std::uint32_t> stages;
  for (std::uint32_t p = 0; p < mesh.pp; ++p) stages.push_back(p);
  const ModelLayout layout{model, mesh, stages};
  FakeHub hub(mesh);
  std::vector<Norms> norms(mesh.world());
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < mesh.world(); ++r)
    threads.emplace_back([&, r] {
      FakeComm comm(hub, r);
      ParameterTable table = layout.of_rank(r);
      const FlatRange owned = zero ? own_range(table, mesh, r) : FlatRange{0, table.flat_size};
      auto state = FlatState::allocate(std::move(table), recipe::Dtype::F32, owned).value();
      state.initialise(7);
      auto* gradient = static_cast<float*>(state.gradients().data);
      for (const Parameter& p : state.table().parameters)
        wire::for_each_run(p.shape, p.box, 0, p.count, [&](const wire::Run& run) {
          for (std::uint64_t i = 0; i < run.count; ++i)
            gradient[p.offset + run.in_a + i] = static_cast<float>((run.in_tensor + i) % 3);
        });
      GradientSums sums(comm, state, 5s);
      double norm = sums.share_of_norm();
      CHECK(comm.all_reduce(Axis::World, Reduce::Sum, {&norm, 1, Element::F64}, {"norm", 5s}));
      if (whole != nullptr && r == 0) *whole = norm;
      norms[r] = measure_norms(comm, state, model.layers, 5s).value();
    });
  for (auto& thread : threads) thread.join();
  return norms.back();
}

}  // namespace

TEST_CASE("norms: on every mesh those of one rank, and the groups' squares are the whole") {
  double whole = 0;
  const Norms one = measured_on({1, 1, 1}, false, &whole);
  REQUIRE(one.groups.size() == 4);
  CHECK(one.groups.front().name == "embedding");
  CHECK(one.groups[2].name == "layer 1");
  CHECK(one.groups.back().name == "final norm");
  double squares = 0;
  for (const auto& group : one.groups) squares += group.gradients * group.gradients;
  CHECK(squares == doctest::Approx(whole).epsilon(1e-12));
  CHECK(one.zeros > 1000);
  CHECK(one.parameters > 1);
  for (const Mesh mesh : {Mesh{2, 1, 1}, Mesh{1, 2, 2}, Mesh{2, 2, 2}})
    for (const bool zero : {false, true}) {
      const Norms many = measured_on(mesh, zero);
      REQUIRE(many.groups.size() == one.groups.size());
      for (std::size_t i = 0; i < one.groups.size(); ++i)
        CHECK(many.groups[i].gradients == doctest::Approx(one.groups[i].gradients).epsilon(1e-9));
      CHECK(many.zeros == one.zeros);
      CHECK(many.parameters == doctest::Approx(one.parameters).epsilon(1e-9));
    }
}

TEST_CASE("norms: one line, which no reader takes for an iteration") {
  Norms norms;
  norms.groups = {{"embedding", 0.5}, {"layer 0", 1.25}};
  CHECK(format_norms_line(Iteration(7), norms) ==
        " gradient norms at iteration 7 | embedding: 0.5 | layer 0: 1.25 |");
}
