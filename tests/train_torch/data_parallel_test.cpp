// Data parallel training over FakeComm's threads against one rank: in f64 the same losses to 1e-12
// and, after ten steps of AdamW with clipping and dropout, the same parameters to 1e-9.
#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <thread>
#include <vector>

#include "kernels/global_norm.hpp"
#include "tests/train_torch/tiny_model.hpp"
#include "worker/train/comm/fake_comm.hpp"
#include "worker/train/data/sampler.hpp"
#include "worker/train/executor/executor.hpp"

using namespace stoker;
using namespace stoker::train;
using namespace stoker::train::testing;

namespace {

struct Outcome {
  std::vector<double> losses, parameters, gradients;
};

Outcome train_rank(Comm& comm, const recipe::ModelConfig& config, int steps) {
  TinyModel tiny(config);
  Outcome outcome;
  for (int step = 0; step < steps; ++step) {
    const BatchCut cut{static_cast<std::uint64_t>(step) * 8, 8, 1, comm.mesh().dp};
    const auto rank = comm.mesh().data_rank(comm.rank());
    double loss = run_schedule(single_stage_schedule(static_cast<std::uint32_t>(cut.micro_steps())),
                               *tiny.model, 1.0 / 8,
                               {[&](std::uint32_t m) -> Result<MicroBatch> {
                                  return tiny_batch(config, cut.samples(m, rank).first, 1);
                                },
                                [] {}})
                      .value();
    REQUIRE(comm.all_reduce(Axis::Data, tiny.state.gradients(), {"gradients", 10s}));
    REQUIRE(comm.all_reduce(Axis::Data, {&loss, 1, Element::F64}, {"step", 10s}));
    outcome.losses.push_back(loss);
    const auto* g = static_cast<const double*>(tiny.state.gradients().data);
    if (step == 0) outcome.gradients.assign(g, g + tiny.state.table().flat_size);
    const double norm = std::sqrt(tiny.state.gradient_sum_of_squares());
    tiny.state.update({1e-2, 0.9, 0.95, 1e-8, 0.1, kernels::clip_scale(norm, 1.0),
                       static_cast<std::uint64_t>(step) + 1},
                      {0, tiny.state.table().flat_size});
  }
  const auto* p = static_cast<const double*>(tiny.state.parameters());
  outcome.parameters.assign(p, p + tiny.state.table().flat_size);
  return outcome;
}

Outcome train_world(std::uint32_t ranks, int steps) {
  const auto config = tiny_config(0.1);
  FakeHub hub(ranks);
  std::vector<Outcome> outcomes(ranks);
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      FakeComm comm(hub, r);
      outcomes[r] = train_rank(comm, config, steps);
    });
  for (auto& thread : threads) thread.join();
  for (const Outcome& other : outcomes) CHECK(other.parameters == outcomes[0].parameters);
  return outcomes[0];
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

}  // namespace

TEST_CASE("data parallel: two and four ranks in f64 -> one rank's losses, gradients, parameters") {
  const Outcome one = train_world(1, 10);
  CHECK(one.losses.back() < one.losses.front());
  for (const std::uint32_t ranks : {2u, 4u}) {
    const Outcome many = train_world(ranks, 10);
    CHECK(distance(one.losses, many.losses) < 1e-12 * one.losses.front());
    CHECK(distance(one.gradients, many.gradients) < 1e-10);
    CHECK(distance(one.parameters, many.parameters) < 1e-9);
  }
}

TEST_CASE("data parallel: the same run again -> the same bits") {
  CHECK(train_world(2, 3).parameters == train_world(2, 3).parameters);
}

TEST_CASE("FakeComm: a dead or a late rank -> an Error that names it, in time") {
  FakeHub hub(2);
  FakeComm comm(hub, 0);
  double x = 1;
  const Status late = comm.all_reduce(Axis::Data, {&x, 1, Element::F64}, {"step", 50ms});
  REQUIRE_FALSE(late);
  CHECK(late.error().message().find("rank 1 did not come") != std::string::npos);
  hub.kill(1);
  const Status dead = comm.all_reduce(Axis::Data, {&x, 1, Element::F64}, {"step", 10s});
  REQUIRE_FALSE(dead);
  CHECK(dead.error().message().find("rank 1 is gone") != std::string::npos);
}
