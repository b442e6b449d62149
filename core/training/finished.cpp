// Finished: how a training reaches its end, and that nothing follows it.
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/handlers.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/training/reactions.hpp"

namespace stoker::core {

void finish(Turn& turn, const std::string& sentence) {
  RunState& run = turn.r();
  cancel_waiting(turn);  // in front of the halt: its lead leaves when it sees that
  turn.go(training::Finished{run.health.progress.iteration}, Trigger::Completes, sentence);
  run.recovery.incident.reset();
  run.asked.save.reset();
  run.asked.planned_stop.reset();
  resolve_failures(turn);
  announce(turn, {Severity::Info, "finished",
                  fmt::format("{} finished at iteration {}", turn.name().text,
                              run.health.progress.iteration.value),
                  command_text(turn.name(), "chronicle"), ""});
}

bool finished_by_file(const RunState& run) {
  return run.conditions.finish_file && !run.policy.train.finished.file.empty();
}

void on_finish_file(Turn& turn, const FinishFileSeen& seen) {
  RunState& run = turn.r();
  run.conditions.finish_file = seen.there;
  if (!seen.there) return turn.say(fmt::format("{} is gone", seen.path));
  training::reactions_of(run).finish_file(
      turn, fmt::format("{} exists: the training is finished", seen.path));
}

namespace training {
namespace {

void refuse_resume(Turn& turn, const std::string& sentence) {
  turn.reject(fmt::format("{}; the run is finished", sentence));
}

}  // namespace

const Reactions& reactions(const Finished&) {
  static constexpr Reactions kFinished{
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
      .resume = refuse_resume,
      .added_again = stay_until_resume,
      .finish_file = say_finish_file,
      .daemon_back = waits_for_no_report,
      .room_again = waits_for_no_room,
  };
  return kFinished;
}

}  // namespace training

}  // namespace stoker::core
