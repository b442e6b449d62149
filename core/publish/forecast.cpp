#include "core/publish/forecast.hpp"

#include <algorithm>

#include "core/recover/save_interval.hpp"
#include "core/signals/detect.hpp"
#include "core/supply/command.hpp"

namespace stoker::core {
namespace {

double spent_s(const RunState& run, const char* cause) {
  const auto found = run.accounting.goodput.spent.find(cause);
  return found == run.accounting.goodput.spent.end() ? 0 : to_seconds(found->second);
}

// The usual iteration and the newest. Where the batch has grown only the newest counts.
void add_speed(const RunState& run, recipe::ForecastInput& in) {
  const auto found = run.health.phases.find(std::string(stoker::name_of(wire::Phase::Iteration)));
  const auto median =
      found == run.health.phases.end() ? std::nullopt : found->second.durations.quantile(500);
  const double newest = run.health.progress.step_ms / 1e3,
               usual = median ? to_seconds(*median) : newest;
  const bool grows = in.batches.size() > 1;
  in.step_s = grows && newest > 0 ? newest : usual;
  if (newest <= 0) return;
  const double most = run.health.speed.slow ? newest : std::min(newest, 1.5 * usual);
  in.step_low_s = std::min(newest, grows ? newest : usual);
  in.step_high_s = grows ? newest : std::max(most, usual);
}

void add_tasks(const RunState& run, WallTime wall, recipe::ForecastInput& in) {
  const double starts = std::max<double>(1, run.newest.value);
  // To leave before the wall takes its time as well.
  in.start_s =
      (spent_s(run, "start") + spent_s(run, "down")) / (starts + run.recovery.budget.restarts);
  in.queue_s = spent_s(run, "queue") / starts;
  in.task_s = to_seconds(run.policy.scheduler.time_limit - signals::limit_margin(run));
  in.task_left_s = in.task_s;
  const supply::Submission* s = running_submission(run);
  if (s == nullptr) return;
  const auto task = s->tasks.find(running_task(*s));
  if (task == s->tasks.end() || !task->second.ends_at) return;
  const Duration left = *task->second.ends_at - wall - signals::limit_margin(run);
  in.task_left_s = std::max(0.0, to_seconds(left));
}

}  // namespace

std::optional<recipe::Forecast> forecast_of(const RunState& run, WallTime wall) {
  if (!std::holds_alternative<training::Training>(run.training)) return std::nullopt;
  recipe::ForecastInput in;
  in.done = run.health.progress.iteration.value;
  in.total = run.health.progress.total;
  add_speed(run, in);
  const double trained = spent_s(run, "train") + spent_s(run, "slow");
  in.trained_s = spent_s(run, "train");
  if (trained > 0) in.save_share = std::min(1.0, spent_s(run, "checkpoint") / trained);
  add_tasks(run, wall, in);
  in.between_failures_s = to_seconds(failure_interval(run));
  if (const auto usual = run.health.checkpoint.intervals.quantile(500))
    in.lost_s = to_seconds(*usual) / 2;
  return recipe::forecast(in);
}

}  // namespace stoker::core
