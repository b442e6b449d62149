// Script: iterations reported one by one, as the numbers of a training go on.
#include <fmt/format.h>
#include <sstream>

#include "sim/transcript/script.hpp"
#include "sim/universe/random.hpp"

namespace stoker::sim {
namespace {

// About Gaussian with deviation 1: the sum of twelve even ones (Irwin-Hall).
double noise(Random& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(random.below(1 << 20)) / (1 << 20);
  return sum;
}

// "0.1/0.2/0.1": of the embedding, each layer and the final norm.
std::vector<double> norms_of(const std::string& text) {
  std::vector<double> norms;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, '/');) norms.push_back(std::stod(one));
  return norms;
}

}  // namespace

// iterate 40 [from 81] [every 105s] [step 105s] [loss 2.2] [to 2.6] [noise 0.02] [lr 6e-05]
// [gradients 0.2] [batch 8] [samples 640] [tokens 2048] [scale 65536] [nan] [skipped] [seed 7]
// [slowest n02] [groups 0.1/0.2/0.1]: so many iterations, a digest each. The same seed gives the
// same noise at the same iteration.
Status Script::do_iterate(Words& words) {
  const std::uint64_t count = std::stoull(words.next());
  const std::uint64_t from = words.number("from", beat_.iteration_max.value + 1);
  const Duration step = words.duration("step", 10s);
  const Duration every = words.duration("every", step);
  const double first = words.real("loss", 2.5), last = words.real("to", first);
  const double spread = words.real("noise", 0.01);
  const double tflops = words.real("tflops");
  const std::uint64_t batch = words.number("batch", 8), seed = words.number("seed", 1);
  const std::uint64_t samples = words.number("samples", from * batch);
  const double gradients = words.real("gradients", 0.2);
  const auto slowest = words.value("slowest");
  const std::uint64_t tokens = words.number("tokens", 0);  // of a sample
  const double scale = words.real("scale");
  const bool nan = words.flag("nan"), skipped = words.flag("skipped");
  const std::vector<double> groups = norms_of(words.value("groups").value_or(""));
  beat_.attempt = attempt_;
  beat_.phase = wire::Phase::Iteration;
  beat_.ranks = beat_.reporting = ranks_;
  beat_.learning_rate = words.real("lr", beat_.learning_rate);
  beat_.tflops = tflops;
  beat_.gradient_norm = gradients;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t n = from + i;
    Random random(seed * 1'000'003 + n);
    const double share = count < 2 ? 0 : static_cast<double>(i) / static_cast<double>(count - 1);
    const double loss = first + (last - first) * share + spread * noise(random);
    if (i > 0)
      STOKER_TRY_STATUS(
          world_.advance_to(world_.clock.now() + every, [this] { return digests(); }));
    beat_.iteration_max = beat_.iteration_min = Iteration(n);
    beat_.consumed_samples = samples + i * batch;
    beat_.consumed_tokens = beat_.consumed_samples * tokens;
    beat_.loss = nan || skipped ? std::nullopt : std::optional(loss);
    beat_.slowest.reset();
    if (slowest)
      beat_.slowest = wire::SlowestRank{Rank(2), NodeName(*slowest), to_seconds(step) * 990,
                                        to_seconds(step) * 930};
    beating_ = true;
    frozen_since_.reset();
    auto inputs = digests();
    auto& digest = std::get<core::Digest>(inputs.front().body);
    const double ms = to_seconds(step) * 1e3 * (1 + 0.002 * noise(random));
    digest.iteration_ms = {1, ms, ms, ms};
    wire::StepTold numbers{Iteration(n), beat_.loss,        gradients,
                           std::nullopt, skipped ? 1u : 0u, nan ? 1u : 0u};
    if (scale > 0) numbers.scale = scale;
    for (const double group : groups) numbers.groups.push_back(group * (1 + 0.1 * noise(random)));
    wire::add(digest.losses, numbers);
    STOKER_TRY_STATUS(world_.feed(std::move(inputs.front())));
  }
  return ok();
}

}  // namespace stoker::sim
