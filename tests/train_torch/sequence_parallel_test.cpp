// Sequence parallelism against one rank and against tensor parallelism alone: ten steps of AdamW
// with clipping and dropout, each tensor rank with its tokens between the products.
#include "tests/train_torch/counting_comm.hpp"
#include "tests/train_torch/mesh_training.hpp"

using namespace stoker;
using namespace stoker::train;
using namespace stoker::train::testing;

namespace {

const Extra kSequence{{}, {}, true};

struct SplitCell {
  const char* name;
  Mesh mesh;
  ScheduleKind kind = ScheduleKind::OneFOneB;
};

}  // namespace

TEST_CASE("sequence parallel in f64: every kind of mesh -> one rank's numbers") {
  for (const SplitCell& cell :
       {SplitCell{"TP2+SP", {2, 1, 1}}, SplitCell{"TP4+SP", {4, 1, 1}},
        SplitCell{"TP2+SP x PP2 x DP2", {2, 2, 2}},
        SplitCell{"TP2+SP x PP2 ZB-H1", {2, 2, 1}, ScheduleKind::ZbH1},
        SplitCell{"TP2+SP x PP2 ZB-V", {2, 2, 1}, ScheduleKind::ZbV},
        SplitCell{"TP2+SP x PP2 two chunks", {2, 2, 1}, ScheduleKind::Interleaved}}) {
    INFO(cell.name);
    check_parity(train_alone(cell.kind, kSequence),
                 train_mesh(cell.mesh, cell.kind, Dtype::F64, 10, kSequence));
  }
}

TEST_CASE("sequence parallel in f32 and bf16 -> one rank, to their precision") {
  for (const Dtype dtype : {Dtype::F32, Dtype::Bf16}) {
    const Outcome one = train_mesh({1, 1, 1}, ScheduleKind::OneFOneB, dtype, 10, kSequence);
    for (const std::uint32_t tensor : {2u, 4u}) {
      INFO("TP", tensor);
      const Outcome many = train_mesh({tensor, 1, 1}, ScheduleKind::OneFOneB, dtype, 10, kSequence);
      const double off = distance(one.losses, many.losses) / one.losses.front();
      CHECK(off < (dtype == Dtype::F32 ? 1e-5 : 2e-2));
      CHECK(worst_cosine(one.gradients, many.gradients) > 0.999);
      if (dtype == Dtype::F32) CHECK(distance(one.parameters, many.parameters) < 1e-3);
    }
  }
}

// The sums are the same in the same order; only the norms' gradients are added up by tokens first.
TEST_CASE("sequence parallel and tensor parallel alone -> the same bits but for the norms") {
  Extra split = kSequence, plain = kSequence;
  const auto first = [](const Extra& extra) {
    return train_mesh({2, 1, 1}, ScheduleKind::OneFOneB, Dtype::F32, 1, extra);
  };
  const Outcome a = first(split);
  plain.sequence = false;
  plain.tokens = 8;
  const Outcome b = first(plain);
  CHECK(a.losses == b.losses);
  for (const auto& [name, gradient] : a.gradients) {
    INFO(name);
    if (name.find("norm") == std::string::npos)
      CHECK(gradient == b.gradients.at(name));
    else
      CHECK(distance(gradient, b.gradients.at(name)) < 1e-6);
  }
}

TEST_CASE(
    "sequence parallel: recomputation, and a curriculum -> the same bits, one rank's numbers") {
  const auto with = [](const Again& again) {
    return train_mesh({2, 2, 1}, ScheduleKind::OneFOneB, Dtype::F32, 3, {again, {}, true});
  };
  const Outcome want = with({});
  for (const Again again : {Again{recipe::Recompute::Selective}, Again{recipe::Recompute::Full, 2}})
    CHECK(with(again).digest == want.digest);
  const Extra short_first{{}, recipe::Curriculum{2, 8, 6, 2}, true};
  check_parity(train_alone(ScheduleKind::ZbV, short_first),
               train_mesh({2, 2, 2}, ScheduleKind::ZbV, Dtype::F64, 10, short_first));
}

TEST_CASE("sequence parallel: what goes between two stages -> half of it with two tensor ranks") {
  const auto bytes = [](bool sequence) {
    auto config = tiny_config();
    FakeHub hub(Mesh{2, 1, 1});
    FakeComm comm(hub, 1);
    const ModelLayout layout{config, hub.mesh(), {0}};
    TinyModel tiny(config, Dtype::F32, layout.of_rank(1), &comm,
                   {7, 1min, recipe::Recompute::None, 1, sequence});
    return tiny.model->activation_bytes(tiny_batch(config, 0, 3));
  };
  CHECK(bytes(false) == 3 * 8 * 16 * 4);
  CHECK(bytes(true) == bytes(false) / 2);
}

TEST_CASE("sequence parallel: bytes of a step over the tensor ranks -> the formula, exactly") {
  for (const bool sequence : {false, true}) {
    Extra extra = kSequence;
    extra.sequence = sequence;
    extra.tokens = 8;
    const recipe::TrainConfig config =
        mesh_config({2, 1, 1}, ScheduleKind::OneFOneB, Dtype::F32, extra);
    FakeHub hub(Mesh{2, 1, 1});
    std::vector<std::thread> ranks;
    for (std::uint32_t r = 0; r < 2; ++r)
      ranks.emplace_back([&, r] {
        FakeComm comm(hub, r);
        CountingComm counting(comm, Axis::Tensor);
        MeshRank(config, counting).step(0);
        const std::size_t layers = config.model.layers;
        const std::size_t hidden = config.model.hidden * sizeof(float);
        const std::size_t one = config.model.sequence * hidden;  // a micro-batch: one sample
        // Sums: two a layer each way, and one at each end of the model.
        CHECK(counting.scattered == (sequence ? kGlobal * (4 * layers + 2) * one : 0));
        CHECK(counting.summed[one] == (sequence ? 0 : kGlobal * (4 * layers + 2)));
        // Gathers: two a layer forward and four backward, two for the head, one for the embedding.
        CHECK(counting.gathered == (sequence ? kGlobal * (6 * layers + 3) * one : 0));
        CHECK(counting.summed[(4 * layers + 2) * hidden] == (sequence ? 1 : 0));  // norms, a step
      });
    for (auto& rank : ranks) rank.join();
  }
}
