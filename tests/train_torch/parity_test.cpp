// Every mesh and schedule against one rank, ranks as threads over FakeComm: ten steps of AdamW with
// clipping and dropout. In f64 the same losses to 1e-12, gradients to 1e-10 and parameters to 1e-9;
// in f32 and bf16 to their precision; schedules of one mesh to the bit.
#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <map>
#include <mutex>
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

using namespace stoker;
using namespace stoker::train;
using namespace stoker::train::testing;
using recipe::Dtype;
using recipe::ScheduleKind;

namespace {

constexpr std::uint64_t kGlobal = 8;  // samples a step, one a micro-batch

// Four layers and heads for TP4, PP4 and two chunks a rank; the fourth tensor rank holds no row of
// the embedding (257 tokens are padded to 512, and the rest is padding).
recipe::TrainConfig mesh_config(const Mesh& mesh, ScheduleKind kind, Dtype dtype) {
  recipe::TrainConfig c;
  c.model = tiny_config(0.1);
  c.model.layers = 4, c.model.heads = 4, c.model.sequence = 7, c.model.vocabulary = 257;
  if (kind == ScheduleKind::Interleaved || kind == ScheduleKind::ZbV) c.model.layers = 8;
  c.parallel.tensor = mesh.tp, c.parallel.pipeline = mesh.pp, c.parallel.schedule = kind;
  if (kind == ScheduleKind::Interleaved) c.parallel.virtual_stages = 2;
  c.train.dtype = dtype;
  return c;
}

using Tensors = std::map<std::string, std::vector<double>>;  // logical ones, put together

struct Outcome {
  std::vector<double> losses;
  Tensors gradients, parameters;
  kernels::StateDigest digest;  // summed over the ranks of one replica
};

template <class T>
void put_together(Tensors& tensors, const ParameterTable& table, const T* flat) {
  for (const Parameter& p : table.parameters) {
    if (!p.counts) continue;
    auto& whole = tensors[p.name];
    whole.resize(wire::elements_of(p.shape));
    wire::for_each_run(p.shape, p.box, 0, p.count, [&](const wire::Run& run) {
      for (std::uint64_t i = 0; i < run.count; ++i)
        whole[run.in_tensor + i] = static_cast<double>(flat[p.offset + run.in_a + i]);
    });
  }
}

void put_together(Tensors& tensors, const ParameterTable& table, const Buffer& flat) {
  if (flat.element == Element::F64)
    put_together(tensors, table, static_cast<const double*>(flat.data));
  else
    put_together(tensors, table, static_cast<const float*>(flat.data));
}

struct Again {  // what the backward pass computes again
  recipe::Recompute what = recipe::Recompute::None;
  std::uint64_t every = 1;
};

// What the trainer does in a step, without files.
struct MeshRank {
  MeshRank(const recipe::TrainConfig& c, Comm& peers)
      : config(c),
        comm(peers),
        pipeline(Pipeline::open(c).value()),
        layout{c.model, peers.mesh(), pipeline.rank_of_stage()},
        tiny(c.model, c.train.dtype, layout.of_rank(peers.rank()), &peers,
             {7, 1min, c.train.recompute, c.train.recompute_every}),
        sums(peers, tiny.state, 1min) {}

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
                      {0, tiny.state.table().flat_size});
    return all[0];
  }

  const recipe::TrainConfig& config;
  Comm& comm;
  Pipeline pipeline;
  ModelLayout layout;
  TinyModel tiny;
  GradientSums sums;
};

Outcome train_mesh(Mesh mesh, ScheduleKind kind = ScheduleKind::OneFOneB, Dtype dtype = Dtype::F64,
                   int steps = 10, Again again = {},
                   std::optional<recipe::Curriculum> curriculum = {}) {
  auto config = mesh_config(mesh, kind, dtype);
  config.train.curriculum = curriculum;
  config.train.recompute = again.what, config.train.recompute_every = again.every;
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
        if (i == 0 && mesh.data_rank(r) == 0)
          put_together(whole.gradients, rank.tiny.state.table(), rank.tiny.state.gradients());
      }
      CHECK(!find_drift(comm, rank.tiny.state, rank.layout.ties_ranks(), 1min).value());
      const std::lock_guard lock(together);
      mine.digest = rank.tiny.state.digest({0, rank.tiny.state.table().flat_size}, false);
      if (mesh.data_rank(r) == 0) {
        put_together(whole.parameters, rank.tiny.state.table(),
                     rank.tiny.state.part(StatePart::Parameter));
        whole.digest.merge(mine.digest);
      }
    });
  for (auto& thread : threads) thread.join();
  for (std::uint32_t r = 0; r < mesh.world(); ++r) {
    CHECK(outcomes[r].losses == outcomes[0].losses);
    const std::uint32_t replica = mesh.on_pipe(mesh.tensor_rank(r), mesh.pipe_rank(r));
    CHECK(outcomes[r].digest == outcomes[replica].digest);
  }
  whole.losses = outcomes[0].losses;
  return whole;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

// The key's part of this bias changes nothing: its gradient is rounding alone, a third of it zeros.
bool is_idle(const std::string& name) {
  return name.find("qkv.bias") != std::string::npos;
}

double distance(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (const auto& [name, values] : a)
    if (!is_idle(name)) worst = std::max(worst, distance(values, b.at(name)));
  return worst;
}

double largest(const Tensors& tensors) {
  double most = 0;
  for (const auto& [name, values] : tensors)
    for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

double worst_cosine(const Tensors& a, const Tensors& b) {
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

struct Cell {
  const char* name;
  Mesh mesh;
  ScheduleKind kind = ScheduleKind::OneFOneB;
};

const Cell kCells[] = {
    {"TP2", {2, 1, 1}},
    {"TP4", {4, 1, 1}},
    {"DP2", {1, 1, 2}},
    {"DP4", {1, 1, 4}},
    {"PP2", {1, 2, 1}},
    {"PP4", {1, 4, 1}},
    {"PP2 GPipe", {1, 2, 1}, ScheduleKind::GPipe},
    {"PP4 ZB-H1", {1, 4, 1}, ScheduleKind::ZbH1},
    {"PP2 two chunks", {1, 2, 1}, ScheduleKind::Interleaved},
    {"PP2 ZB-V", {1, 2, 1}, ScheduleKind::ZbV},
    // Two micro-batches on four ranks: interleaved has no form for them, 1F1B's order runs.
    {"PP4 x DP4 two chunks", {1, 4, 4}, ScheduleKind::Interleaved},
    {"TP2 x PP2 x DP2", {2, 2, 2}},
    {"TP2 x PP2 x DP2 ZB-V", {2, 2, 2}, ScheduleKind::ZbV},
};

// One rank with the layers of this kind of schedule: a pipeline of one stage does them in turn.
Outcome train_alone(ScheduleKind kind, std::optional<recipe::Curriculum> curriculum = {}) {
  auto config = mesh_config({1, 1, 1}, kind, Dtype::F64);
  config.parallel.schedule = ScheduleKind::OneFOneB;
  config.parallel.virtual_stages = 1;
  config.train.curriculum = curriculum;
  SelfComm comm;
  MeshRank rank(config, comm);
  Outcome outcome;
  for (std::uint64_t i = 0; i < 10; ++i) {
    outcome.losses.push_back(rank.step(i));
    if (i == 0)
      put_together(outcome.gradients, rank.tiny.state.table(), rank.tiny.state.gradients());
  }
  put_together(outcome.parameters, rank.tiny.state.table(),
               rank.tiny.state.part(StatePart::Parameter));
  return outcome;
}

void check_parity(const Outcome& want, const Outcome& many) {
  CHECK(distance(want.losses, many.losses) < 1e-12 * want.losses.front());
  CHECK(distance(want.gradients, many.gradients) < 1e-10);
  CHECK(distance(want.parameters, many.parameters) < 1e-9);
}

}  // namespace

TEST_CASE("parity in f64: every mesh and schedule -> one rank's losses, gradients, parameters") {
  std::map<std::size_t, Outcome> alone;  // by the number of tensors: of four and of eight layers
  for (const Cell& cell : kCells) {
    INFO(cell.name);
    const Outcome many = train_mesh(cell.mesh, cell.kind);
    auto& want = alone[many.parameters.size()];
    if (want.losses.empty()) {
      want = train_alone(cell.kind);
      CHECK(largest(want.gradients) > 1e-3);  // numbers, not zeros, are compared
    }
    check_parity(want, many);
  }
}

// Two to seven tokens a sample: activations change their size from step to step.
TEST_CASE("parity in f64: a curriculum on every kind of mesh -> one rank's numbers") {
  const recipe::Curriculum curriculum{2, 7, 6, 1};
  for (const Cell& cell : {Cell{"TP4", {4, 1, 1}}, Cell{"DP2", {1, 1, 2}},
                           Cell{"PP4 ZB-H1", {1, 4, 1}, ScheduleKind::ZbH1},
                           Cell{"PP2 two chunks", {1, 2, 1}, ScheduleKind::Interleaved},
                           Cell{"TP2 x PP2 x DP2 ZB-V", {2, 2, 2}, ScheduleKind::ZbV}}) {
    INFO(cell.name);
    const Outcome want = train_alone(cell.kind, curriculum);
    check_parity(want, train_mesh(cell.mesh, cell.kind, Dtype::F64, 10, {}, curriculum));
    CHECK(want.losses[0] != train_alone(cell.kind).losses[0]);
  }
}

TEST_CASE("recomputation with a curriculum: whole layers, the scores -> the same bits") {
  const recipe::Curriculum curriculum{2, 7, 4, 1};
  const auto with = [&](Again again) {
    return train_mesh({2, 2, 1}, ScheduleKind::ZbV, Dtype::F32, 4, again, curriculum);
  };
  const Outcome want = with({});
  for (const Again again : {Again{recipe::Recompute::Selective}, Again{recipe::Recompute::Full, 2}})
    CHECK(with(again).digest == want.digest);
}

TEST_CASE("parity in f32 and bf16: tensor and pipeline parallel -> one rank, to their precision") {
  for (const Dtype dtype : {Dtype::F32, Dtype::Bf16}) {
    const Outcome one = train_mesh({1, 1, 1}, ScheduleKind::OneFOneB, dtype);
    for (const Mesh mesh : {Mesh{4, 1, 1}, Mesh{1, 4, 1}, Mesh{2, 2, 2}}) {
      const Outcome many = train_mesh(mesh, ScheduleKind::OneFOneB, dtype);
      const double off = distance(one.losses, many.losses) / one.losses.front();
      CHECK(off < (dtype == Dtype::F32 ? 1e-5 : 2e-2));
      CHECK(worst_cosine(one.gradients, many.gradients) > 0.999);
      if (dtype == Dtype::F32) CHECK(distance(one.parameters, many.parameters) < 1e-3);
    }
  }
}

TEST_CASE("schedules of one mesh, and the same run again -> the same bits") {
  const Outcome want = train_mesh({1, 4, 1}, ScheduleKind::GPipe, Dtype::F32, 4);
  for (const ScheduleKind kind :
       {ScheduleKind::OneFOneB, ScheduleKind::ZbH1, ScheduleKind::GPipe}) {
    const Outcome other = train_mesh({1, 4, 1}, kind, Dtype::F32, 4);
    CHECK(other.digest == want.digest);
    CHECK(other.losses == want.losses);
  }
  CHECK(train_mesh({2, 2, 2}, ScheduleKind::OneFOneB, Dtype::Bf16, 3).digest ==
        train_mesh({2, 2, 2}, ScheduleKind::OneFOneB, Dtype::Bf16, 3).digest);
}

TEST_CASE("recomputation: the scores, whole layers, layers in stretches -> the same bits") {
  const auto same = [](Mesh mesh, ScheduleKind kind, Dtype dtype) {
    const Outcome want = train_mesh(mesh, kind, dtype, 3);
    for (const Again again : {Again{recipe::Recompute::Selective}, Again{recipe::Recompute::Full},
                              Again{recipe::Recompute::Full, 2}, Again{recipe::Recompute::Full, 3},
                              Again{recipe::Recompute::Full, 9}}) {
      INFO(name_of(again.what), " every ", again.every);
      const Outcome other = train_mesh(mesh, kind, dtype, 3, again);
      CHECK(other.digest == want.digest);
      CHECK(other.losses == want.losses);
    }
  };
  same({1, 1, 1}, ScheduleKind::OneFOneB, Dtype::F32);
  same({2, 1, 1}, ScheduleKind::OneFOneB, Dtype::Bf16);
  same({1, 2, 1}, ScheduleKind::ZbV, Dtype::F32);
}

// BLOOM's clipping reached only tensor rank 0, and the norms of the others drifted.
TEST_CASE("clipping over tensor ranks: a gradient far above the limit -> copies stay equal") {
  const Mesh mesh{2, 1, 1};
  auto config = mesh_config(mesh, ScheduleKind::OneFOneB, Dtype::F32);
  config.model.init_std = 1;
  FakeHub hub(mesh);
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      FakeComm comm(hub, r);
      MeshRank rank(config, comm);
      for (std::uint64_t i = 0; i < 3; ++i) rank.step(i);
      CHECK(!find_drift(comm, rank.tiny.state, false, 1min).value());
      if (r == 1) {  // and a difference of one bit in one copy is named
        const ParameterTable& table = rank.tiny.state.table();
        const Buffer masters = rank.tiny.state.part(StatePart::Parameter);
        static_cast<float*>(masters.data)[table.parameters[table.blocks.at(2)].offset + 3] += 1e-6F;
      }
      const auto drift = find_drift(comm, rank.tiny.state, false, 1min).value();
      REQUIRE(drift);
      CHECK(drift->text() ==
            "blocks.2.norm1.weight[3]: its parameter on rank 1 differs from that on rank 0");
      CHECK(repair_drift(comm, rank.tiny.state, false, 1min));
      CHECK(!find_drift(comm, rank.tiny.state, false, 1min).value());
    });
  for (auto& thread : threads) thread.join();
}

TEST_CASE("a rank of a mesh that is gone in a forward pass -> an Error that names it, in time") {
  const Mesh mesh{2, 1, 1};
  const auto config = mesh_config(mesh, ScheduleKind::OneFOneB, Dtype::F32);
  FakeHub hub(mesh);
  FakeComm comm(hub, 0);
  MeshRank rank(config, comm);
  hub.kill(1);
  Activation none;
  const auto lost = rank.tiny.model->forward({}, tiny_batch(config.model, 0, 1), none, none);
  REQUIRE_FALSE(lost);
  CHECK(lost.error().message().find("rank 1 is gone") != std::string::npos);
}
