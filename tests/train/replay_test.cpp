// The replay of a micro-batch: what is compared, who is blamed, and a rank that computes wrongly.
#include "worker/train/loop/replay.hpp"

#include <doctest/doctest.h>
#include <thread>

#include "recipe/schedule/generators.hpp"
#include "recipe/schedule/passes.hpp"
#include "worker/train/comm/fake_comm.hpp"

using namespace stoker;
using namespace stoker::train;
using recipe::ScheduleKind;

namespace {

ReplayRecord record(std::uint64_t original, std::uint64_t again, bool known = true) {
  ReplayRecord r;
  r.original = {known ? 1u : 0u, 2.5, original};
  r.again = {1, 2.5, again};
  return r;
}

// Adds to each gradient a number of its own for each sample; one computation is wrong by one bit.
struct CountingModel final : Model {
  CountingModel(FlatState& s, std::uint64_t wrong) : state(s), wrong_call(wrong) {}
  [[nodiscard]] std::size_t activation_bytes(const MicroBatch&) const override { return 8; }
  Result<double> forward(Unit u, const MicroBatch& batch, const Activation&,
                         Activation& out) override {
    out.assign(8, 'a');
    sample[u] = batch.samples.front();
    return 1.0 / static_cast<double>(1 + batch.samples.front());
  }
  Status backward(Unit u, double scale, const Activation&, Activation& down) override {
    down.assign(8, 'g');
    auto* gradient = static_cast<float*>(state.gradients().data);
    for (std::size_t i = 0; i < state.table().flat_size; ++i)
      gradient[i] += static_cast<float>(scale * static_cast<double>((sample[u] + 1) * (i % 13)));
    if (++calls == wrong_call) gradient[5] += 1e-3F;
    return ok();
  }
  Status input_gradient(Unit u, double s, const Activation& up, Activation& down) override {
    return backward(u, s, up, down);
  }
  Status weight_gradient(Unit) override { return ok(); }
  Result<double> evaluate(Unit u, const MicroBatch& b, const Activation& in,
                          Activation& out) override {
    return forward(u, b, in, out);
  }
  FlatState& state;
  std::uint64_t wrong_call, calls = 0;
  std::map<Unit, std::uint64_t> sample;
};

struct Wrong {
  std::uint32_t rank = 99;
  std::uint64_t call = 0;  // the nth backward of that rank
};

// One step of four micro-batches a replica behind a replay; what all ranks find.
std::optional<ReplayDiffers> found_on(Mesh mesh, std::uint32_t turn, Wrong wrong,
                                      ScheduleKind kind = ScheduleKind::OneFOneB) {
  const auto step =
      recipe::lower(recipe::make_schedule({kind, mesh.pp, 1, 4}).value(), true).value();
  const auto single = one_micro_batch(step.rank_of_stage).value();
  recipe::ModelConfig model;
  model.layers = 4, model.hidden = 8, model.heads = 2, model.ffn = 16;
  model.sequence = 4, model.vocabulary = 300;
  const ModelLayout layout{model, mesh, step.rank_of_stage};
  FakeHub hub(mesh);
  std::vector<std::optional<ReplayDiffers>> found(mesh.world());
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < mesh.world(); ++r)
    threads.emplace_back([&, r] {
      FakeComm comm(hub, r);
      auto state = FlatState::allocate(layout.of_rank(r), recipe::Dtype::F32).value();
      CountingModel computes(state, wrong.rank == r ? wrong.call : 0);
      Replay replay(comm, computes, state, 10s);
      const std::uint32_t replica = replay.replica_of(turn);
      const auto fetch_of = [](std::uint32_t of) {
        return [of](std::uint32_t m) -> Result<MicroBatch> {
          return MicroBatch{{of * 4 + m}, {0, 0}};
        };
      };
      CHECK(replay.run({replica, single, step, 0.25, fetch_of(replica), [] {}}));
      replay.watch(step.ranks[mesh.pipe_rank(r)]);
      state.zero_gradients();
      ExecutorHooks hooks;
      hooks.fetch = fetch_of(mesh.data_rank(r));
      hooks.after_op = [&] { replay.after_op(); };
      hooks.reduce = [](std::uint32_t) { return ok(); };
      hooks.reduce_tied = [] { return ok(); };
      hooks.loss = [&](std::uint32_t m, double mean) { replay.loss(m, mean); };
      CHECK(run_schedule({step, comm, 10s, 0.25}, computes, hooks));
      found[r] = replay.compare().value();
    });
  for (auto& thread : threads) thread.join();
  for (const auto& one : found) CHECK((one ? one->what : "") == (found[0] ? found[0]->what : ""));
  return found[0];
}

}  // namespace

TEST_CASE("replay: three computations of one micro-batch -> who is blamed") {
  const Mesh mesh{1, 1, 3};
  const auto blamed = [&](ReplayRecord own, ReplayRecord next) -> std::vector<std::uint32_t> {
    std::vector<ReplayRecord> all(3);
    all[1] = own, all[2] = next;
    const auto found = judge_replay(mesh, 1, all);
    if (!found) return {};
    CHECK(found->outvoted == (found->ranks.size() == 1));
    return found->ranks;
  };
  const ReplayRecord none{};
  CHECK(blamed(record(7, 7), {none.original, record(0, 7).again}).empty());
  CHECK(blamed(record(7, 7), {none.original, record(0, 8).again}) == std::vector<std::uint32_t>{2});
  CHECK(blamed(record(7, 8), {none.original, record(0, 7).again}) == std::vector<std::uint32_t>{1});
  CHECK(blamed(record(8, 7), {none.original, record(0, 7).again}) == std::vector<std::uint32_t>{1});
  CHECK(blamed(record(7, 8), {none.original, record(0, 9).again}) ==
        std::vector<std::uint32_t>{1, 2});
  // Where the step mixes micro-batches the two replays are all there is.
  CHECK(blamed(record(0, 7, false), {none.original, record(0, 7).again}).empty());
  CHECK(blamed(record(0, 7, false), {none.original, record(0, 8).again}) ==
        std::vector<std::uint32_t>{1, 2});
  // The loss counts by its bits.
  ReplayRecord zero = record(7, 7), minus = zero;
  zero.original.loss = zero.again.loss = 0.0;
  minus.again.loss = -0.0;
  CHECK(blamed(zero, {none.original, minus.again}) == std::vector<std::uint32_t>{2});
}

TEST_CASE("replay: where the gradients are those of micro-batch 0 alone") {
  const auto alone = [](ScheduleKind kind, std::uint32_t rank) {
    return first_alone(recipe::make_schedule({kind, 4, 1, 8}).value().ranks[rank]).has_value();
  };
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    CHECK(alone(ScheduleKind::OneFOneB, rank));
    CHECK(alone(ScheduleKind::GPipe, rank));
  }
  CHECK(alone(ScheduleKind::ZbH1, 0));
  CHECK_FALSE(alone(ScheduleKind::ZbH1, 3));
}

TEST_CASE("replay: all compute the same -> nothing, on every mesh, schedule and turn") {
  for (const Mesh mesh : {Mesh{1, 1, 1}, Mesh{1, 1, 3}, Mesh{2, 2, 2}})
    for (std::uint32_t turn = 0; turn < 3; ++turn)
      for (const ScheduleKind kind : {ScheduleKind::OneFOneB, ScheduleKind::ZbH1})
        CHECK_FALSE(found_on(mesh, turn, {}, kind));
}

TEST_CASE("replay: a rank that computes wrongly once -> found, and named") {
  const Mesh three{1, 1, 3};
  const auto named = [&](std::uint32_t turn, Wrong wrong) {
    const auto found = found_on(three, turn, wrong);
    REQUIRE(found);
    CHECK(found->outvoted);
    REQUIRE(found->ranks.size() == 1);
    return found->ranks.front();
  };
  CHECK(named(1, {1, 1}) == 1);             // its replay
  CHECK(named(1, {1, 2}) == 1);             // its step
  CHECK(named(1, {2, 1}) == 2);             // the next one's replay
  CHECK(named(2, {0, 1}) == 0);             // next to the last is the first
  CHECK_FALSE(found_on(three, 1, {0, 1}));  // has no part in it
  CHECK(found_on(three, 1, {2, 1})->what ==
        "micro-batch 0 of replica 1, computed again there and on replica 2: loss or gradients are "
        "not the same bits; rank 2 computes wrongly");
}

TEST_CASE("replay: alone, and in a pipeline -> found; a replica of several ranks is named whole") {
  const auto alone = found_on({1, 1, 1}, 0, {0, 1});
  REQUIRE(alone);
  CHECK(alone->ranks == std::vector<std::uint32_t>{0});
  const auto split = found_on({1, 4, 1}, 0, {3, 1}, ScheduleKind::ZbH1);
  REQUIRE(split);
  CHECK(split->ranks == std::vector<std::uint32_t>{3});
  CHECK_FALSE(split->outvoted);
  const auto many = found_on({2, 2, 2}, 0, {1, 1});
  REQUIRE(many);
  CHECK_FALSE(many->outvoted);
  CHECK(many->what.find("rank 1 compute with what one of them got wrong") != std::string::npos);
}
