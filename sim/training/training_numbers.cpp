// What a start takes over from its checkpoint, what goes wrong with that, and what iterations tell.
#include <algorithm>
#include <fmt/format.h>

#include "sim/training/training.hpp"
#include "wire/lineage.hpp"
#include "wire/resume_audit.hpp"

namespace stoker::sim {
namespace {

constexpr int kRefused = 21;  // exit code of a training that does not take its checkpoint

bool goes_back(const SimGeneration& g) {
  return g.orders().resume.mode == wire::ResumeMode::Exact &&
         g.resume == g.orders().resume.iteration;
}

}  // namespace

bool Training::sicken(Ailment ailment) {
  SimGeneration* g = live();
  if (g == nullptr || g->stage != Stage::Iterate || g->frozen_at) return false;
  ailment.onset = completed(*g).next();
  hooks_.say(fmt::format("the loss goes wrong at iteration {}", ailment.onset.value));
  ailments_.push_back(ailment);
  return true;
}

TrainingLine Training::line_of_start(const SimGeneration& g) {
  TrainingLine line;
  for (const SimCheckpoint& c : checkpoints_)
    if (c.id.iteration == g.resume && wire::accepts(g.lineage(), c.id.generation, c.id.iteration)) {
      line = c.line;
      line.skipped += wire::samples_to_skip(g.orders().skips, c.id.generation);
    }
  line.lr_scale = g.orders().lr_scale;
  if (forgets_rate_) line.rate_from = g.resume;
  if (other_data_ != 0) line.order = other_data_;
  return line;
}

// Another learning rate, or without the samples that began it: what lies ahead does not come again.
void Training::cure(const SimGeneration& g) {
  if (!goes_back(g)) return;
  std::erase_if(ailments_, [&](Ailment& a) {
    if (a.onset <= g.resume) return false;
    if (a.stubborn == 0) return true;
    --a.stubborn;
    return false;
  });
}

// A training that compares its replicas when it loads finds that they do not agree, or that a
// checkpoint was damaged after it was chosen; and one whose checkpoints are all damaged does not
// start from scratch by itself.
bool Training::refuses_load(SimGeneration& g) {
  if (g.from_memory) return false;
  const bool torn = g.orders().verify_checkpoints &&
                    std::any_of(checkpoints_.begin(), checkpoints_.end(),
                                [&](const auto& c) { return c.damaged && c.id == g.loaded; });
  const auto found = std::find_if(checkpoints_.begin(), checkpoints_.end(),
                                  [&](const auto& c) { return c.drifted && c.id == g.loaded; });
  const bool none_is_good =
      g.resume == Iteration{} && g.orders().verify_checkpoints &&
      std::any_of(checkpoints_.begin(), checkpoints_.end(), [&](const auto& c) {
        return wire::accepts(g.lineage(), c.id.generation, c.id.iteration);
      });
  if (found == checkpoints_.end() && !none_is_good && !torn) return false;
  if (found != checkpoints_.end()) {
    wire::ResumeAudit audit;
    audit.checkpoint = wire::checkpoint_name(found->id.iteration, found->id.generation);
    audit.iteration = g.resume;
    audit.passed = false;
    audit.items = {{"replicas of the layer norms", "equal", "60 % of them equal", false}};
    report(g, g.attempt_nodes.front(), wire::NodeEvent{std::move(audit)});
  }
  rank_fails(g, g.attempt_nodes.front(), kRefused, 0);
  return true;
}

void Training::mend() {
  forgets_rate_ = drifts_ = tears_next_ = false;
  ailments_.clear();
  other_data_ = 0;
  for (SimCheckpoint& c : checkpoints_) {
    c.drifted = false;
    c.line.rate_from = {};
    c.line.order = 1;
  }
  if (std::all_of(checkpoints_.begin(), checkpoints_.end(),
                  [](const auto& c) { return c.damaged; }))
    for (SimCheckpoint& c : checkpoints_) c.damaged = false;  // brought back from a copy
}

// 0 at night, 1 in the afternoon.
double Training::warmth() const {
  const double day = to_seconds((time_.now() - Instant{}) % 24h) / 86400;
  return day < 0.5 ? 2 * day : 2 - 2 * day;
}

void Training::tell_iterations(SimGeneration& g, core::Digest& digest) {
  const Iteration now = completed(g);
  if (now.value <= g.digested) return;
  digest.losses =
      losses_of(scenario_.training.numbers, g.line, ailments_, Iteration(g.digested), now);
  wire::Quantiles& fresh = digest.iteration_ms;
  fresh.count = now.value - g.digested;
  const TrainingShape& shape = scenario_.training;
  const double noise = shape.step_noise * static_cast<double>(random_.below(200)) / 200 +
                       shape.daily_swing * warmth();
  fresh.p50 =
      static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(g.step).count()) *
      (1 + noise);
  fresh.p99 = fresh.p50 * 1.02;
  fresh.max = fresh.p50 * 1.05;
  g.digested = now.value;
}

bool Training::goes_on(const SimGeneration& g) const {
  const bool drifted = std::any_of(checkpoints_.begin(), checkpoints_.end(),
                                   [](const SimCheckpoint& c) { return c.drifted; });
  return g.line.rate_from == Iteration{} && g.line.order == 1 && !drifted;
}

// What the orders go on from is there and whole, or there never was any.
bool Training::finds_checkpoint(const wire::Orders& orders) const {
  if (!orders.verify_checkpoints && orders.resume.mode == wire::ResumeMode::Newest) return true;
  const wire::Resume& resume = orders.resume;
  const bool exact = resume.mode == wire::ResumeMode::Exact;
  if (!exact && generations_.empty()) return true;
  bool any = exact;
  for (const SimCheckpoint& c : checkpoints_) {
    const bool counts = exact ? c.id == wire::CheckpointId{resume.iteration, resume.generation}
                              : wire::accepts(generations_.rbegin()->second.lineage(),
                                              c.id.generation, c.id.iteration);
    if (counts && !(c.damaged && orders.verify_checkpoints)) return true;
    any = any || counts;
  }
  return !any;
}

}  // namespace stoker::sim
