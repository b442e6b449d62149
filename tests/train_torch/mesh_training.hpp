// The trainer's steps on a mesh, ranks as threads over FakeComm, without files: what the tests of
// parity share.
#pragma once

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "kernels/global_norm.hpp"
#include "recipe/sequence_plan.hpp"
#include "tests/train_torch/tiny_model.hpp"
#include "worker/train/comm/fake_comm.hpp"
#include "worker/train/data/sampler.hpp"
#include "worker/train/executor/executor.hpp"
#include "worker/train/loop/gradient_sums.hpp"
#include "worker/train/loop/pipeline.hpp"
#include "worker/train/state/replicas.hpp"
#include "worker/train/state/zero.hpp"

namespace stoker::train::testing {

using recipe::Dtype;
using recipe::ScheduleKind;

inline constexpr std::uint64_t kGlobal = 8;  // samples a step, one a micro-batch

struct Again {  // what the backward pass computes again
  recipe::Recompute what = recipe::Recompute::None;
  std::uint64_t every = 1;
};

struct Extra {
  Again again{};
  std::optional<recipe::Curriculum> curriculum{};
  bool sequence = false;     // parallel
  std::uint64_t tokens = 0;  // of a sample; 0: 7, and 8 where they are split
  bool zero = false;         // ZeRO-1
};

// Four layers and heads for TP4, PP4 and two chunks a rank; the fourth tensor rank holds no row of
// the embedding (257 tokens are padded to 512, and the rest is padding).
inline recipe::TrainConfig mesh_config(const Mesh& mesh, ScheduleKind kind, Dtype dtype,
                                       const Extra& extra = {}) {
  recipe::TrainConfig c;
  c.model = tiny_config(0.1);
  c.model.layers = 4, c.model.heads = 4, c.model.sequence = 7, c.model.vocabulary = 257;
  if (kind == ScheduleKind::Interleaved || kind == ScheduleKind::ZbV) c.model.layers = 8;
  c.parallel.tensor = mesh.tp, c.parallel.pipeline = mesh.pp, c.parallel.schedule = kind;
  if (kind == ScheduleKind::Interleaved) c.parallel.virtual_stages = 2;
  c.train.dtype = dtype;
  c.train.recompute = extra.again.what, c.train.recompute_every = extra.again.every;
  c.train.curriculum = extra.curriculum;
  c.parallel.sequence = extra.sequence;
  if (extra.sequence) c.model.sequence = 8;
  if (extra.tokens > 0) c.model.sequence = extra.tokens;
  c.parallel.zero = extra.zero ? 1 : 0;
  return c;
}

using Tensors = std::map<std::string, std::vector<double>>;  // logical ones, put together

struct Outcome {
  std::vector<double> losses;
  Tensors gradients, parameters;
  kernels::StateDigest digest;  // summed over the ranks of one replica; with ZeRO, of all
};

template <class T>
void put_together(Tensors& tensors, const FlatState& state, const T* flat) {
  for (const Piece& piece : counting_pieces_of(state.table(), state.owned())) {
    const Parameter& p = *piece.parameter;
    auto& whole = tensors[p.name];
    whole.resize(wire::elements_of(p.shape));
    wire::for_each_run(p.shape, p.box, piece.first, piece.count, [&](const wire::Run& run) {
      for (std::uint64_t i = 0; i < run.count; ++i)
        whole[run.in_tensor + i] = static_cast<double>(flat[p.offset + run.in_a + i]);
    });
  }
}

// What a rank owns.
inline void put_together(Tensors& tensors, const FlatState& state, const Buffer& flat) {
  if (flat.element == Element::F64)
    put_together(tensors, state, static_cast<const double*>(flat.data));
  else
    put_together(tensors, state, static_cast<const float*>(flat.data));
}

// What the trainer does in a step, without files.
struct MeshRank {
  MeshRank(const recipe::TrainConfig& c, Comm& peers)
      : config(c),
        comm(peers),
        pipeline(Pipeline::open(c).value()),
        layout{c.model, peers.mesh(), pipeline.rank_of_stage()},
        tiny(c.model, state_of(), &peers,
             {7, 1min, c.train.recompute, c.train.recompute_every, c.parallel.sequence}),
        sums(peers, tiny.state, 1min, c.parallel.sequence) {}

  [[nodiscard]] FlatState state_of() const {
    ParameterTable table = layout.of_rank(comm.rank());
    const FlatRange owned = config.parallel.zero > 0 ? own_range(table, comm.mesh(), comm.rank())
                                                     : FlatRange{0, table.flat_size};
    return FlatState::allocate(std::move(table), config.train.dtype, owned).value();
  }

  double step(std::uint64_t number) {
    const BatchCut cut{number * kGlobal, kGlobal, 1, comm.mesh().dp};
    const auto rank = comm.mesh().data_rank(comm.rank());
    const auto* schedule = pipeline.training(static_cast<std::uint32_t>(cut.micro_steps())).value();
    auto model = config.model;
    model.sequence = recipe::sequence_at(config, Iteration(number + 1));
    tiny.state.zero_gradients();
    const auto loss =
        run_schedule({*schedule, comm, 1min, 1.0 / kGlobal}, *tiny.model,
                     {[&](std::uint32_t m) -> Result<MicroBatch> {
                        return tiny_batch(model, cut.samples(m, rank).first, 1);
                      },
                      [] {}, [&](std::uint32_t stage) { return sums.add_stage(stage); },
                      [&] { return sums.add_tied(); }});
    REQUIRE(loss);
    double all[2] = {comm.mesh().tensor_rank(comm.rank()) == 0 ? *loss : 0, sums.share_of_norm()};
    REQUIRE(comm.all_reduce(Axis::World, Reduce::Sum, {all, 2, Element::F64}, {"step", 1min}));
    tiny.state.update({1e-2, 0.9, 0.95, 1e-8, 0.1, kernels::clip_scale(std::sqrt(all[1]), 1.0),
                       ++tiny.state.steps},
                      tiny.state.owned());
    REQUIRE(gather_parameters(comm, tiny.state, 1min));
    return all[0];
  }

  const recipe::TrainConfig& config;
  Comm& comm;
  Pipeline pipeline;
  ModelLayout layout;
  TinyModel tiny;
  GradientSums sums;
};

inline Outcome train_mesh(Mesh mesh, ScheduleKind kind = ScheduleKind::OneFOneB,
                          Dtype dtype = Dtype::F64, int steps = 10, const Extra& extra = {}) {
  const recipe::TrainConfig config = mesh_config(mesh, kind, dtype, extra);
  FakeHub hub(mesh);
  std::vector<Outcome> outcomes(mesh.world());
  std::mutex together;
  Outcome whole;
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < mesh.world(); ++r)
    threads.emplace_back([&, r] {
      FakeComm comm(hub, r);
      MeshRank rank(config, comm);
      Outcome& mine = outcomes[r];
      for (int i = 0; i < steps; ++i) {
        mine.losses.push_back(rank.step(static_cast<std::uint64_t>(i)));
        const std::lock_guard lock(together);
        if (i == 0 && (extra.zero || mesh.data_rank(r) == 0))
          put_together(whole.gradients, rank.tiny.state, rank.tiny.state.gradients());
      }
      CHECK(!find_drift(comm, rank.tiny.state, rank.layout.ties_ranks(), 1min).value());
      const std::lock_guard lock(together);
      mine.digest = rank.tiny.state.digest(rank.tiny.state.owned(), false);
      if (extra.zero || mesh.data_rank(r) == 0) {
        put_together(whole.parameters, rank.tiny.state, rank.tiny.state.part(StatePart::Parameter));
        whole.digest.merge(mine.digest);
      }
    });
  for (auto& thread : threads) thread.join();
  for (std::uint32_t r = 0; r < mesh.world(); ++r) {
    CHECK(outcomes[r].losses == outcomes[0].losses);
    const std::uint32_t replica = mesh.on_pipe(mesh.tensor_rank(r), mesh.pipe_rank(r));
    if (!extra.zero) CHECK(outcomes[r].digest == outcomes[replica].digest);
  }
  whole.losses = outcomes[0].losses;
  return whole;
}

inline double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

// The key's part of this bias changes nothing: its gradient is rounding alone, a third of it zeros.
inline bool is_idle(const std::string& name) {
  return name.find("qkv.bias") != std::string::npos;
}

inline double distance(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (const auto& [name, values] : a)
    if (!is_idle(name)) worst = std::max(worst, distance(values, b.at(name)));
  return worst;
}

inline double largest(const Tensors& tensors) {
  double most = 0;
  for (const auto& [name, values] : tensors)
    for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

inline double worst_cosine(const Tensors& a, const Tensors& b) {
  double worst = 1;
  for (const auto& [name, x] : a) {
    if (is_idle(name)) continue;
    const auto& y = b.at(name);
    double dot = 0, xx = 0, yy = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      dot += x[i] * y[i];
      xx += x[i] * x[i];
      yy += y[i] * y[i];
    }
    worst = std::min(worst, dot / std::sqrt(xx * yy));
  }
  return worst;
}

// One rank with the layers of this kind of schedule: a pipeline of one stage does them in turn.
inline Outcome train_alone(ScheduleKind kind, const Extra& extra = {}) {
  auto config = mesh_config({1, 1, 1}, kind, Dtype::F64, extra);
  config.parallel.schedule = ScheduleKind::OneFOneB;
  config.parallel.virtual_stages = 1;
  SelfComm comm;
  MeshRank rank(config, comm);
  Outcome outcome;
  for (std::uint64_t i = 0; i < 10; ++i) {
    outcome.losses.push_back(rank.step(i));
    if (i == 0) put_together(outcome.gradients, rank.tiny.state, rank.tiny.state.gradients());
  }
  put_together(outcome.parameters, rank.tiny.state, rank.tiny.state.part(StatePart::Parameter));
  return outcome;
}

inline void check_parity(const Outcome& want, const Outcome& many) {
  CHECK(distance(want.losses, many.losses) < 1e-12 * want.losses.front());
  CHECK(distance(want.gradients, many.gradients) < 1e-10);
  CHECK(distance(want.parameters, many.parameters) < 1e-9);
}

}  // namespace stoker::train::testing
