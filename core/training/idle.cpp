// Idle: under supervision, nothing submitted. A task that runs all the same is taken up, unless the
// run is paused.
#include "core/supply/supply.hpp"
#include "core/training/reactions.hpp"

namespace stoker::core::training {
namespace {

RunningTask task_of_idle(const RunState& run) {
  return run.asked.paused ? RunningTask::Unwanted : RunningTask::Awaited;
}

void add_idle_again(Turn& turn, bool) {
  if (!turn.r().asked.paused) supply::submit(turn, "nothing was queued");
}

}  // namespace

const Reactions& reactions(const Idle&) {
  static constexpr Reactions kIdle{
      .task_runs = task_of_idle,
      .task_ends = say_task_end,
      .generation_starts = ignore,
      .ranks_start = begin_no_ranks,
      .iterates = ignore,
      .heartbeats = unwatched,
      .rank_exits = ignore,
      .attempt_ends = note_outcome,
      .agent_lost = say_lost_agent,
      .lead_silent = ignore,
      .stop = stop_resting,
      .resume = resume_resting,
      .added_again = add_idle_again,
      .finish_file = say_finish_file,
      .daemon_back = waits_for_no_report,
      .room_again = waits_for_no_room,
  };
  return kIdle;
}

}  // namespace stoker::core::training
