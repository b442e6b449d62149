#include "core/timers.hpp"

#include <algorithm>

#include "core/followers/followers.hpp"
#include "core/handlers.hpp"
#include "core/signals/probe.hpp"
#include "core/step.hpp"
#include "core/supply/calendar.hpp"

namespace stoker::core {
namespace {

// The daemon reads the heartbeats whenever it wakes.
void wait_for_digest(Turn&) {}

constexpr Timer kTimers[] = {
    {"an effect is tried again", retry_at, retry_effects},
    {"a submission is searched for", supply::look_up_at, supply::look_up_again},
    {"the end of a task is decided", supply::decide_end_at, supply::decide_ends},
    {"an array waits for no task", supply::limit_lasts_until, supply::replace_limited},
    {"the next submission", training::submit_at, training::submit_again},
    {"the next step of a stop", training::escalate_at, training::escalate},
    {"a recovery is repeated or given up", training::recover_again_at, training::recover_again},
    {"the verdict on a silence", training::verdict_at, training::give_verdict},
    {"the hour of a planned stop", planned_stop_at, stop_as_planned},
    {"the margin before the time limit", training::wall_at, training::leave_before_wall},
    {"a job outlives its agents", training::limbo_at, probe::on_limbo_due},
    {"no agent has reported", training::agents_due, training::agents_silent},
    {"a request to save is repeated", save_again_at, save_again},
    {"checkpoints.interval", save_by_interval_at, save_by_interval},
    {"the next try after a pause", training::held_retry_at, training::leave_held},
    {"a task outlives its run", training::leftover_at, training::cancel_leftover},
    {"nodes are reserved", supply::calendar_at, supply::follow_calendar},
    {"a checkpoint is overdue", training::save_overdue_at, training::report_overdue_save},
    {"a follower is due", followers::wake_at, followers::advance},
    {"the hang detector wants heartbeats", training::digest_at, wait_for_digest},
};

}  // namespace

std::span<const Timer> timers() {
  return kTimers;
}

void on_time(Turn& turn) {
  for (const Timer& timer : kTimers)
    if (const auto at = timer.due(turn.site, turn.r()); at && *at <= turn.now()) timer.act(turn);
}

std::optional<Instant> wake_at(const SiteState& state, const RunState& run) {
  std::optional<Instant> at;
  for (const Timer& timer : kTimers) keep_earliest(at, timer.due(state, run));
  return at;
}

std::optional<Instant> wake_at(const SiteState& state) {
  std::optional<Instant> at;
  for (const auto& [name, run] : state.runs) keep_earliest(at, wake_at(state, run));
  for (const Retry& retry : state.retries)
    if (retry.effect.run.empty()) keep_earliest(at, retry.at);
  return at;
}

}  // namespace stoker::core
