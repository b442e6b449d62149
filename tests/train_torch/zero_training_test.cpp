// ZeRO-1 in the trainer's steps: the bits without it, and what travels.
#include "recipe/plan.hpp"
#include "tests/train_torch/counting_comm.hpp"
#include "tests/train_torch/mesh_training.hpp"

using namespace stoker;
using namespace stoker::train;
using namespace stoker::train::testing;

namespace {

Extra with_zero(bool zero) {
  Extra extra;
  extra.zero = zero;
  return extra;
}

}  // namespace

TEST_CASE("ZeRO-1: every kind of mesh -> losses, gradients and state without it, to the bit") {
  struct Cell {
    const char* name;
    Mesh mesh;
    ScheduleKind kind = ScheduleKind::OneFOneB;
    Dtype dtype = Dtype::F32;
  };
  for (const Cell& cell :
       {Cell{"DP2 f64", {1, 1, 2}, ScheduleKind::OneFOneB, Dtype::F64}, Cell{"DP4", {1, 1, 4}},
        Cell{"DP4 bf16", {1, 1, 4}, ScheduleKind::OneFOneB, Dtype::Bf16},
        Cell{"PP2 x DP2 two chunks", {1, 2, 2}, ScheduleKind::Interleaved},
        Cell{"TP2 x PP2 x DP2 ZB-V", {2, 2, 2}, ScheduleKind::ZbV}}) {
    INFO(cell.name);
    const auto train = [&](bool zero) {
      return train_mesh(cell.mesh, cell.kind, cell.dtype, 4, with_zero(zero));
    };
    const Outcome want = train(false), got = train(true);
    CHECK(got.losses == want.losses);
    CHECK(got.gradients == want.gradients);
    CHECK(got.parameters == want.parameters);
    CHECK(got.digest == want.digest);
  }
}

TEST_CASE("ZeRO-1: bytes of a step over the replicas -> the formula, exactly") {
  for (const Dtype dtype : {Dtype::F32, Dtype::Bf16}) {
    const Mesh mesh{1, 1, 4};
    const recipe::TrainConfig config =
        mesh_config(mesh, ScheduleKind::OneFOneB, dtype, with_zero(true));
    FakeHub hub(mesh);
    std::vector<std::thread> ranks;
    for (std::uint32_t r = 0; r < mesh.dp; ++r)
      ranks.emplace_back([&, r] {
        FakeComm comm(hub, r);
        CountingComm counting(comm, Axis::Data);
        MeshRank rank(config, counting);
        rank.step(0);
        // Every rank's part as long as the first one's, which is the longest.
        const std::size_t flat = rank.tiny.state.table().flat_size;
        const std::size_t sent = mesh.dp * shard_range(flat, 0, mesh.dp).size();
        CHECK(sent < flat + mesh.dp * 64);
        CHECK(counting.scattered == sent * sizeof(float));
        CHECK(counting.gathered == sent * recipe::bytes_per_value(dtype));
        CHECK(counting.summed.empty());
      });
    for (auto& rank : ranks) rank.join();
  }
}
