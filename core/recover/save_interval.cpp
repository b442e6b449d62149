// Daly's interval on line.
#include "core/recover/save_interval.hpp"

#include <algorithm>

#include "recipe/save_rounds.hpp"

namespace stoker::core {
namespace {

constexpr Duration kPrior = 24h;  // a failure a day: what a large cluster shows (peers: RSC, BLOOM)

}  // namespace

bool can_save(const RunPolicy& policy) {
  if (!policy.train.save_signal.empty()) return true;
  return !policy.train.command.empty() && policy.train.command.front().ends_with("stoker-train");
}

Duration failure_interval(const RunState& run) {
  Duration ran = kPrior;
  for (const char* cause : {"train", "repeated", "slow", "checkpoint"})
    if (const auto found = run.accounting.goodput.spent.find(cause);
        found != run.accounting.goodput.spent.end())
      ran += found->second;
  return ran / (run.recovery.budget.restarts + 1);
}

std::optional<Duration> save_interval(const RunState& run) {
  const CheckpointPolicy& policy = run.policy.checkpoints;
  if (policy.interval > 0ns) return std::max(policy.interval, policy.interval_floor);
  if (!policy.interval_auto) return std::nullopt;
  const auto phase = run.health.phases.find(std::string(stoker::name_of(wire::Phase::Checkpoint)));
  if (phase == run.health.phases.end()) return std::nullopt;
  const auto cost = phase->second.durations.quantile(500);
  if (!cost || *cost <= 0ns) return std::nullopt;
  return std::max(recipe::daly_interval(*cost, failure_interval(run)), policy.interval_floor);
}

std::optional<Instant> interval_save_at(const RunState& run) {
  // A foreign training may take a request up and never say that it saved.
  const bool waits = run.asked.save && !run.asked.save->taken;
  const bool idle = !waits && !run.conditions.is_cut_off() && run.live && !run.live->goodbye_at;
  if (!idle || !std::holds_alternative<training::Training>(run.training)) return std::nullopt;
  if (!can_save(run.policy)) return std::nullopt;
  const auto interval = save_interval(run);
  if (!interval) return std::nullopt;
  return std::max({run.health.checkpoint.at, run.live->attempt_at, run.since,
                   run.asked.interval_asked}) +
         *interval;
}

}  // namespace stoker::core
