// Stopped: an operator, a plan or the training itself ended the run. Nothing is submitted until
// `resume`.
#include "core/recover/recover.hpp"
#include "core/training/reactions.hpp"

namespace stoker::core::training {

const Reactions& reactions(const Stopped&) {
  static constexpr Reactions kStopped{
      .task_runs = unwanted_task,
      .task_ends = say_task_end,
      .generation_starts = ignore,
      .ranks_start = say_ranks_start,
      .iterates = ignore,
      .heartbeats = unwatched,
      .rank_exits = ignore,
      .attempt_ends = note_outcome,
      .agent_lost = say_lost_agent,
      .lead_silent = ignore,
      .stop = refuse_stop,
      .resume = resume_resting,
      .added_again = stay_until_resume,
      .finish_file = finish,
      .daemon_back = waits_for_no_report,
      .room_again = waits_for_no_room,
  };
  return kStopped;
}

}  // namespace stoker::core::training
