// Recovering: a rung of the ladder is under way. What was not acknowledged is repeated; a restart
// inside the allocation that does not come is given up for the next task.
#include <algorithm>
#include <fmt/format.h>

#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"
#include "core/timers.hpp"
#include "core/training/reactions.hpp"

namespace stoker::core {

void await_restart(RunState& run, Instant until) {
  auto* recovering = std::get_if<training::Recovering>(&run.training);
  if (recovering == nullptr || recovering->rung != training::Rung::InAllocation) return;
  recovering->repeat_at = std::max(recovering->repeat_at, until);
  recovering->give_up_at = std::max(recovering->give_up_at, until + kRestartBound);
}

namespace training {
namespace {

void lose_recovered_task(Turn& turn, const TaskEnd& end) {
  if (planned_end(turn, std::nullopt, end.sentence) || finished_script(turn, end)) return;
  turn.go(Queued{}, Trigger::TaskEnds, end.sentence);
  supply::ensure(turn, "");
}

void stop_recovery(Turn& turn, const StopAsked& asked) {
  stop_running(turn, {wire::Level::LeaveNow, asked.by, asked.sentence});
}

// A restart that was given up came after all, and its agents go on: so does the task. Ranks that
// begin in a task which is ended for another reason leave with it.
void begin_recovered(Turn& turn, const wire::AttemptStarted& e, const std::string& sentence) {
  RunState& run = turn.r();
  if (turn.in<Recovering>()->rung == Rung::InAllocation) return begin_ranks(turn, e, sentence);
  const Attempt given_up = run.asked.control.leave_of;
  if (given_up.value != 0 && e.attempt > given_up) {
    set_level(run, wire::Level::Run);
    write_control(turn, "");
    return begin_ranks(turn, e, sentence + "; the restart came after all, so the task goes on");
  }
  if (is_leave_unwritten(run)) return begin_ranks(turn, e, sentence);
  begin_no_ranks(turn, e, sentence);
}

void put_recovery_off(RunState& run, Instant now, Duration away) {
  auto& recovering = std::get<Recovering>(run.training);
  put_off(recovering.repeat_at, now, away);
  put_off(recovering.give_up_at, now, away);
}

// The request to restart could not be read, or the answer not be written.
void wait_for_restart(RunState& run, Instant now) {
  auto& recovering = std::get<Recovering>(run.training);
  recovering.give_up_at = std::max(recovering.give_up_at, now + kRestartBound);
}

}  // namespace

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
    if (run.conditions.is_cut_off() &&
        !(run.live && run.live->goodbye_at)) {  // neither the command nor the answer passes
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
                      format_duration(turn.now() - before.since)),
          run.asked.control.restart_of);
    }
    if (recovering.repeat_at > turn.now()) return;
    recovering.repeat_at = recovering.give_up_at;
    turn.say("the restart request was not acknowledged yet; repeating it");
    return write_control(turn, run.asked.control.reason);
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

const Reactions& reactions(const Recovering&) {
  static constexpr Reactions kRecovering{
      .task_runs = known_task,
      .task_ends = lose_recovered_task,
      .generation_starts = ignore,
      .ranks_start = begin_recovered,
      .iterates = ignore,
      .heartbeats = unwatched,
      .rank_exits = on_rank_failed,
      .attempt_ends = end_ordered_attempt,
      .agent_lost = say_lost_agent,
      .lead_silent = ignore,
      .stop = stop_recovery,
      .resume = resume_running,
      .added_again = keep_until_next_start,
      .finish_file = wait_for_ranks,
      .daemon_back = put_recovery_off,
      .room_again = wait_for_restart,
  };
  return kRecovering;
}

}  // namespace training

}  // namespace stoker::core
