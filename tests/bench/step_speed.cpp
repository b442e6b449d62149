// step_speed: parts of a training step without LibTorch. The optimizer's pass over a rank's state
// against a memcpy that moves as many bytes; schedules of operations that sleep, on ranks that are
// threads, against what the simulation of the schedule says. Prints JSON objects.
// step_speed optimizer|pipeline
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <thread>

#include "common/time.hpp"
#include "recipe/schedule/generators.hpp"
#include "recipe/schedule/passes.hpp"
#include "recipe/schedule/simulate.hpp"
#include "tests/bench/timing.hpp"
#include "worker/train/comm/fake_comm.hpp"
#include "worker/train/executor/executor.hpp"
#include "worker/train/state/flat_state.hpp"

using namespace stoker;
using namespace stoker::train;
using recipe::ScheduleKind;
using stoker::bench::median;
using stoker::bench::timed;

namespace {

constexpr int kTurns = 5;
constexpr std::size_t kNorm = 4, kUpdate = 28, kDigest = 12;  // bytes moved, an f32 parameter

struct Optimizer {
  double norm, update, digest, copy;  // seconds; of memcpy: of as many bytes moved as all of these
  std::size_t parameters;
};

Optimizer time_optimizer() {
  recipe::ModelConfig model;
  model.layers = 6, model.hidden = 768, model.heads = 12, model.ffn = 3072;
  model.sequence = 256, model.vocabulary = 1000;
  auto state = FlatState::allocate(gpt_parameters(model, whole_model(model)), recipe::Dtype::F32);
  if (!state) std::exit(1);
  state->initialise(1);
  const FlatRange all = state->owned();
  auto* gradients = static_cast<float*>(state->gradients().data);
  for (std::size_t i = 0; i < all.size(); ++i) gradients[i] = 1e-3F * static_cast<float>(i % 89);
  // memcpy reads and writes each byte.
  const std::size_t bytes = all.size() * (kNorm + kUpdate + kDigest) / 2;
  std::vector<char> from(bytes, 'a'), to(bytes, 'b');
  std::vector<double> norm, update, digest, copy;
  double squares = 0;
  kernels::StateDigest sum;
  for (int turn = 0; turn < kTurns; ++turn) {
    copy.push_back(timed([&] { std::memcpy(to.data(), from.data(), bytes); }));
    from[static_cast<std::size_t>(turn)] = to[bytes - 1];
    norm.push_back(timed([&] { squares += state->gradient_sum_of_squares(all); }));
    update.push_back(timed([&] {
      state->update({1e-4, 0.9, 0.95, 1e-8, 0.1, 1.0, static_cast<std::uint64_t>(turn) + 1}, all);
    }));
    digest.push_back(timed([&] { sum.merge(state->digest(all, false)); }));
  }
  if (squares < 0 || sum.low == 0) std::exit(1);  // nothing is optimised away
  return {median(norm), median(update), median(digest), median(copy), all.size()};
}

// Sleeps as long as an operation takes.
class SleepingModel final : public Model {
 public:
  explicit SleepingModel(Duration one) : one_(one) {}
  [[nodiscard]] std::size_t activation_bytes(const MicroBatch&) const override { return 64; }
  Result<double> forward(Unit, const MicroBatch&, const Activation&, Activation& out) override {
    out.assign(64, 'a');
    return sleep(1);
  }
  Status backward(Unit, double, const Activation&, Activation& down) override {
    down.assign(64, 'g');
    sleep(2);
    return ok();
  }
  Status input_gradient(Unit, double, const Activation&, Activation& down) override {
    down.assign(64, 'g');
    sleep(1);
    return ok();
  }
  Status weight_gradient(Unit) override {
    sleep(1);
    return ok();
  }
  Result<double> evaluate(Unit, const MicroBatch&, const Activation&, Activation&) override {
    return 0.0;
  }

 private:
  double sleep(int operations) {
    std::this_thread::sleep_for(one_ * operations);
    return 0;
  }
  Duration one_;
};

// Of a step on `ranks` threads: seconds, in units of an operation of a rank's whole part.
double time_schedule(const recipe::PipelineSchedule& lowered, std::uint32_t ranks, Duration one) {
  FakeHub hub(Mesh{1, ranks, 1});
  std::vector<std::thread> threads;
  const Instant began = monotonic_now();
  for (std::uint32_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      FakeComm comm(hub, r);
      SleepingModel model(one);
      const ExecutorHooks hooks{[](std::uint32_t) -> Result<MicroBatch> { return MicroBatch{}; },
                                [] {}, [](std::uint32_t) { return ok(); }, [] { return ok(); }};
      if (!run_schedule({lowered, comm, 1min, 1.0}, model, hooks)) std::exit(1);
    });
  for (auto& thread : threads) thread.join();
  return to_seconds(monotonic_now() - began);
}

std::string pipeline(ScheduleKind kind, std::uint32_t chunks) {
  constexpr std::uint32_t kRanks = 4, kMicroBatches = 8;
  constexpr Duration kOperation = 40ms;  // of a rank's whole part
  const auto schedule = recipe::make_schedule({kind, kRanks, chunks, kMicroBatches});
  const auto lowered = schedule ? recipe::lower(*schedule, true)
                                : Result<recipe::PipelineSchedule>(fail(schedule.error()));
  const auto says = lowered ? recipe::simulate(*lowered, {}) : fail(lowered.error());
  if (!says) std::exit(1);
  std::vector<double> took;
  for (int turn = 0; turn < 3; ++turn)
    took.push_back(time_schedule(*lowered, kRanks, kOperation / chunks) / to_seconds(kOperation));
  return fmt::format("{{\"kind\":\"{}\",\"says\":{:.3f},\"took\":{:.3f},\"busy\":{:.3f}}}",
                     name_of(kind), says->makespan, median(took), 3.0 * kMicroBatches);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "optimizer") {
    const Optimizer o = time_optimizer();
    std::printf("%s\n", fmt::format("{{\"parameters\":{},\"norm\":{:.4f},\"update\":{:.4f},"
                                    "\"digest\":{:.4f},\"copy\":{:.4f}}}",
                                    o.parameters, o.norm, o.update, o.digest, o.copy)
                            .c_str());
    return 0;
  }
  if (what != "pipeline") return 2;
  for (const auto& [kind, chunks] :
       {std::pair{ScheduleKind::OneFOneB, 1u}, std::pair{ScheduleKind::Interleaved, 2u},
        std::pair{ScheduleKind::ZbH1, 1u}, std::pair{ScheduleKind::ZbV, 2u}})
    std::printf("%s\n", pipeline(kind, chunks).c_str());
}
