// By the state and phase that lasted until now.
#include "core/goodput.hpp"

#include <algorithm>

#include "core/state.hpp"
#include "recipe/save_rounds.hpp"

namespace stoker::core {
namespace {

constexpr Duration kLongest = 24h * 365;  // a clock that jumped further proves nothing

std::string cause_of(const RunState& run) {
  if (std::holds_alternative<training::Queued>(run.training)) return "queue";
  if (std::holds_alternative<training::Starting>(run.training)) return "start";
  if (std::holds_alternative<training::Training>(run.training)) {
    if (run.progress.phase == wire::Phase::Checkpoint) return "checkpoint";
    return run.progress.iteration < run.goodput.reached ? "repeated" : "train";
  }
  const bool over = std::holds_alternative<training::Held>(run.training) ||
                    std::holds_alternative<training::Stopped>(run.training) ||
                    std::holds_alternative<training::Finished>(run.training) ||
                    std::holds_alternative<training::Idle>(run.training);
  return over ? "held" : "down";
}

}  // namespace

void account(RunState& run, Instant now) {
  Goodput& g = run.goodput;
  if (g.until == Instant{}) g.until = now;
  const Duration lasted = std::clamp<Duration>(now - g.until, 0ns, kLongest);
  g.until = now;
  g.reached = std::max(g.reached, run.progress.iteration);
  if (lasted == 0ns) return;
  const std::string cause = cause_of(run);
  Duration good = cause == "train" ? lasted : Duration{};
  if (cause == "train" && run.speed.slow) {
    const double share = run.speed.slow->share();
    const Duration slow = from_seconds(to_seconds(lasted) * share / (1 + share));
    g.spent["slow"] += slow;
    good -= slow;
    g.spent["train"] += good;
  } else {
    g.spent[cause] += lasted;
  }
  const std::size_t nodes = run.live ? run.live->nodes.size() : 0;
  if (cause != "held")
    g.node_hours += to_seconds(lasted - good) / 3600 * static_cast<double>(nodes);
}

Duration whole(const Goodput& goodput) {
  Duration sum{};
  for (const auto& [cause, time] : goodput.spent)
    if (cause != "held") sum += time;
  return sum;
}

double ettr(const Goodput& goodput) {
  const Duration all = whole(goodput);
  const auto train = goodput.spent.find("train");
  if (all <= 0ns || train == goodput.spent.end()) return 0;
  return to_seconds(train->second) / to_seconds(all);
}

std::optional<SaveAdvice> save_advice(const RunState& run) {
  SaveAdvice advice;
  advice.failures = run.budget.restarts;
  const auto phase = run.phases.find(std::string(stoker::name_of(wire::Phase::Checkpoint)));
  const auto usual = run.checkpoint.intervals.quantile(500);
  if (phase == run.phases.end() || !usual || advice.failures == 0) return std::nullopt;
  const auto cost = phase->second.durations.quantile(500);
  if (!cost || *cost <= 0ns) return std::nullopt;
  Duration ran{};
  for (const char* cause : {"train", "repeated", "slow", "checkpoint"})
    if (const auto found = run.goodput.spent.find(cause); found != run.goodput.spent.end())
      ran += found->second;
  if (ran <= 0ns) return std::nullopt;
  advice.usual = *usual;
  advice.cost = *cost;
  advice.mtbf = ran / advice.failures;
  advice.best = recipe::daly_interval(advice.cost, advice.mtbf);
  return advice;
}

}  // namespace stoker::core
