// Detectors of what comes to an end: the wall of a task, the chain of tasks, the budget, the saves.
#include <algorithm>
#include <fmt/format.h>

#include "core/sentence.hpp"
#include "core/signals/detect.hpp"
#include "core/supply/calendar.hpp"
#include "core/supply/command.hpp"
#include "core/supply/script.hpp"
#include "core/supply/suspended.hpp"

namespace stoker::core::signals {

Duration limit_margin(const RunState& run) {
  const Duration margin = std::max<Duration>(
      run.policy.train.exit_before_limit, from_seconds(2 * run.health.checkpoint.longest_seconds));
  return std::min(margin, run.policy.scheduler.time_limit / 2);
}

namespace {

std::optional<WallTime> wall_of_task(const RunState& run) {
  const supply::Submission* s = running_submission(run);
  if (s == nullptr) return std::nullopt;
  const auto task = s->tasks.find(running_task(*s));
  return task == s->tasks.end() ? std::nullopt : task->second.ends_at;
}

// SLURM ends a job with its reservation.
std::optional<WallTime> end_of_reservation(const SiteState& site, const RunState& run) {
  const supply::Submission* s = running_submission(run);
  if (!site.calendar || (s != nullptr && s->unreserved)) return std::nullopt;
  return supply::own_end(*site.calendar, run.policy.scheduler, site.wall);
}

// While a job is suspended it cannot save.
Instant save_awaited_since(const RunState& run) {
  return std::max(run.health.checkpoint.at, run.conditions.resumed_at);
}

}  // namespace

bool reservation_is_first(const SiteState& site, const RunState& run) {
  const auto reserved = end_of_reservation(site, run), wall = wall_of_task(run);
  return reserved && (!wall || *reserved < *wall);
}

std::optional<Instant> limit_at(const SiteState& site, const RunState& run) {
  if (!has_agents(run.policy) && !script::leaves_when_told(run.policy)) return std::nullopt;
  if (running_submission(run) == nullptr || supply::is_suspended(run))
    return std::nullopt;  // its wall moves on
  const auto end =
      reservation_is_first(site, run) ? end_of_reservation(site, run) : wall_of_task(run);
  if (!end) return std::nullopt;
  return site.now + (*end - site.wall) - limit_margin(run);
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
  if (facts.intervals.count() < kIntervalsToLearn || facts.iteration.value == 0 ||
      supply::is_suspended(run))
    return std::nullopt;
  return save_awaited_since(run) + std::max<Duration>({3 * *facts.intervals.quantile(500),
                                                       run.policy.hang.floor, kSaveOverdueFloor});
}

std::optional<std::string> save_overdue(const RunState& run, Instant now) {
  const auto due = save_due_by(run);
  if (!due || now < *due) return std::nullopt;
  const CheckpointFacts& facts = run.health.checkpoint;
  const Instant from = save_awaited_since(run);
  return fmt::format("no checkpoint for {}{} (usual interval {}, limit {}), {}",
                     format_duration(now - from),
                     from > facts.at ? " since the job went on after its suspension" : "",
                     format_duration(*facts.intervals.quantile(500)), format_duration(*due - from),
                     where_text(run));
}

Duration lead_patience(const HangPolicy& policy) {
  return 60s + 2 * policy.floor;
}

}  // namespace stoker::core::signals
