// Training: iterations are completed. What is due meanwhile: a word about saves that stay away.
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/signals/detect.hpp"
#include "core/timers.hpp"
#include "core/training/reactions.hpp"

namespace stoker::core::training {

std::optional<Instant> save_overdue_at(const SiteState&, const RunState& run) {
  if (!std::holds_alternative<Training>(run.training) ||
      run.health.overdue_told == run.health.checkpoint.iteration)
    return std::nullopt;
  return signals::save_due_by(run);
}

void report_overdue_save(Turn& turn) {
  RunState& run = turn.r();
  run.health.overdue_told = run.health.checkpoint.iteration;
  const auto overdue = signals::save_overdue(run, turn.now());
  if (!overdue) return;
  turn.say(*overdue);
  raise(turn, {Severity::Warning, "save_overdue", fmt::format("{}: {}", turn.name().text, *overdue),
               command_text(turn.name(), "save"), ""});
}

const Reactions& reactions(const Training&) {
  static constexpr Reactions kTraining{
      .task_runs = known_task,
      .task_ends = lose_task,
      .generation_starts = ignore,
      .ranks_start = begin_ranks,
      .iterates = ignore,
      .heartbeats = watch_heartbeats,
      .rank_exits = on_rank_failed,
      .attempt_ends = end_attempt,
      .agent_lost = recover,
      .lead_silent = suspect_lead,
      .stop = stop_running,
      .resume = resume_running,
      .added_again = keep_until_next_start,
      .finish_file = wait_for_ranks,
      .daemon_back = waits_for_no_report,
      .room_again = waits_for_no_room,
  };
  return kTraining;
}

}  // namespace stoker::core::training
