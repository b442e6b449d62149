// Recovering: a rung of the ladder is under way. What was not acknowledged is repeated; a restart
// inside the allocation that does not come is given up for the next task.
#include <algorithm>
#include <fmt/format.h>

#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"
#include "core/timers.hpp"
#include "core/training/task_end.hpp"

namespace stoker::core::training {
std::optional<Instant> recover_again_at(const SiteState&, const RunState& run) {
  const auto* recovering = std::get_if<Recovering>(&run.training);
  if (recovering == nullptr) return std::nullopt;
  return recovering->rung == Rung::InAllocation
             ? std::min(recovering->repeat_at, recovering->give_up_at)
             : recovering->repeat_at;
}

void recover_again(Turn& turn) {
  RunState& run = turn.r();
  auto& recovering = *turn.in<Recovering>();
  if (recovering.rung == Rung::InAllocation) {
    const bool gone = run.live && (run.live->goodbye_at || run.live->lead_silent);
    if (run.no_room_since &&
        !(run.live && run.live->goodbye_at)) {  // neither the command nor the answer can be written
      if (recovering.repeat_at <= turn.now()) recovering.repeat_at = turn.now() + kBlindRetry;
      recovering.give_up_at = std::max(recovering.give_up_at, recovering.repeat_at);
      return;
    }
    if (recovering.give_up_at <= turn.now() || (gone && recovering.repeat_at <= turn.now())) {
      const Recovering before = recovering;
      return next_task(
          turn, before.failure,
          fmt::format("limbo: no new attempt {} after the restart request; ending the task "
                      "so that the next one resumes",
                      format_duration(turn.now() - before.since)));
    }
    if (recovering.repeat_at > turn.now()) return;
    recovering.repeat_at = recovering.give_up_at;
    turn.say("the restart request was not acknowledged yet; repeating it");
    return write_control(turn, run.control.reason);
  }
  if (recovering.repeat_at > turn.now()) return;
  recovering.repeat_at = turn.now() + (turn.blind() ? kBlindRetry : Duration(60s));
  if (running_submission(run) == nullptr) {
    turn.go(Queued{}, Trigger::TaskEnds, "the run has no task left");
    return supply::ensure(turn, "");
  }
  cancel_again(turn, fmt::format("the task is still there after {}; cancelling it again",
                                 format_duration(turn.now() - recovering.since)));
}

void on_task_end(Turn& turn, const Recovering&, const TaskEnd& end) {
  if (planned_end(turn, std::nullopt, end.sentence)) return;
  turn.go(Queued{}, Trigger::TaskEnds, end.sentence);
  supply::ensure(turn, "");
}

}  // namespace stoker::core::training
