// Detectors of what comes to an end: the wall of a task, the chain of tasks, the budget, the saves.
#include <algorithm>
#include <fmt/format.h>

#include "core/sentence.hpp"
#include "core/signals/detect.hpp"
#include "core/supply/command.hpp"
#include "core/supply/script.hpp"
#include "core/supply/suspended.hpp"

namespace stoker::core::signals {

Duration limit_margin(const RunState& run) {
  const Duration margin = std::max<Duration>(
      run.policy.train.exit_before_limit, from_seconds(2 * run.health.checkpoint.longest_seconds));
  return std::min(margin, run.policy.scheduler.time_limit / 2);
}

std::optional<Instant> limit_at(const RunState& run, Instant now, WallTime wall) {
  if (!has_agents(run.policy) && !script::leaves_when_told(run.policy)) return std::nullopt;
  const supply::Submission* s = running_submission(run);
  if (s == nullptr || supply::is_suspended(run)) return std::nullopt;  // its wall moves on
  const auto task = s->tasks.find(running_task(*s));
  if (task == s->tasks.end() || !task->second.ends_at) return std::nullopt;
  return now + (*task->second.ends_at - wall) - limit_margin(run);
}

std::optional<std::string> chain_dry(const RunState& run) {
  std::uint32_t waiting = 0;
  bool running = false;
  for (const auto& [token, s] : run.jobs.supply) {
    if (!s.live()) continue;
    if (std::holds_alternative<supply::Running>(s.state)) {
      running = true;
    } else if (!std::holds_alternative<supply::Ending>(s.state)) {
      return std::nullopt;  // an array that has not begun waits already
    }
    waiting += s.waiting();
  }
  const std::uint32_t wanted = run.policy.scheduler.top_up_below;
  if (!running || waiting >= wanted) return std::nullopt;
  return fmt::format("{} left in the queue, fewer than {}", count_text(waiting, "task"), wanted);
}

std::optional<std::string> crash_loop(const Budget& budget, const RecoverPolicy& policy) {
  if (budget.without_progress > policy.restarts_without_progress)
    return fmt::format("{} in a row without progress beyond iteration {} (limit {})",
                       count_text(budget.without_progress, "failure"), budget.best.value,
                       policy.restarts_without_progress);
  if (budget.spent > policy.restarts_total)
    return fmt::format("all {} are used up (one is restored every {})",
                       count_text(policy.restarts_total, "restart"),
                       format_duration(policy.refill / std::max(1u, policy.restarts_total)));
  return std::nullopt;
}

std::optional<Instant> save_due_by(const RunState& run) {
  constexpr std::uint64_t kIntervalsToLearn = 3;
  const CheckpointFacts& facts = run.health.checkpoint;
  if (facts.intervals.count() < kIntervalsToLearn || facts.iteration.value == 0)
    return std::nullopt;
  return facts.at + std::max<Duration>({3 * *facts.intervals.quantile(500), run.policy.hang.floor,
                                        kSaveOverdueFloor});
}

std::optional<std::string> save_overdue(const RunState& run, Instant now) {
  const auto due = save_due_by(run);
  if (!due || now < *due) return std::nullopt;
  const CheckpointFacts& facts = run.health.checkpoint;
  return fmt::format("no checkpoint for {} (usual interval {}, limit {}), {}",
                     format_duration(now - facts.at),
                     format_duration(*facts.intervals.quantile(500)),
                     format_duration(*due - facts.at), where_text(run));
}

Duration lead_patience(const HangPolicy& policy) {
  return 60s + 2 * policy.floor;
}

}  // namespace stoker::core::signals
