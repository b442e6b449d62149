// Every mesh and schedule against one rank, ranks as threads over FakeComm: ten steps of AdamW with
// clipping and dropout. In f64 the same losses to 1e-12, gradients to 1e-10 and parameters to 1e-9;
// in f32 and bf16 to their precision; schedules of one mesh to the bit.
#include "tests/train_torch/mesh_training.hpp"

using namespace stoker;
using namespace stoker::train;
using namespace stoker::train::testing;

namespace {

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
    const Outcome want = train_alone(cell.kind, {{}, curriculum});
    check_parity(want, train_mesh(cell.mesh, cell.kind, Dtype::F64, 10, {{}, curriculum}));
    CHECK(want.losses[0] != train_alone(cell.kind).losses[0]);
  }
}

TEST_CASE("recomputation with a curriculum: whole layers, the scores -> the same bits") {
  const recipe::Curriculum curriculum{2, 7, 4, 1};
  const auto with = [&](Again again) {
    return train_mesh({2, 2, 1}, ScheduleKind::ZbV, Dtype::F32, 4, {again, curriculum});
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
      const Outcome other = train_mesh(mesh, kind, dtype, 3, {again});
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
