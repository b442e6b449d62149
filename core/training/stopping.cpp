// Stopping: the ranks were ordered to save and exit. Who does not obey is ordered to exit at once,
// then cancelled by the scheduler, again and again; unknown is not dead, so nothing is cancelled
// while the scheduler is blind.
#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/recover/end.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/script.hpp"
#include "core/supply/supply.hpp"
#include "core/timers.hpp"
#include "core/training/reactions.hpp"
#include "wire/time_limits.hpp"

namespace stoker::core {
void leave(Turn& turn, training::Goal goal, wire::Level level, const std::string& sentence) {
  RunState& run = turn.r();
  training::Stopping stopping;
  stopping.goal = goal;
  stopping.level = level;
  stopping.step = level == wire::Level::SaveAndLeave ? 0 : 1;
  stopping.escalate_at = turn.now() + patience(run, level);
  turn.go(stopping, Trigger::Leaves, sentence);
  if (goal == training::Goal::Stop) halt(turn, sentence);
  if (run.live && !has_agents(run.policy)) {
    script::ask_to_leave(turn, level);
  } else if (run.live && !run.live->goodbye_at) {
    set_level(run, level);
    write_control(turn, sentence);
  } else {
    cancel_task(turn);  // no agent to talk to
  }
}

namespace training {
namespace {

constexpr int kCancelPages = 4;
constexpr const char* kStopWaits = "stop_waits";

void leave_stopping(Turn& turn, const Stopping& stopping, const std::string& over) {
  RunState& run = turn.r();
  resolve(turn, kStopWaits);
  switch (stopping.goal) {
    case Goal::Stop:
      turn.go(Stopped{stopping.by}, Trigger::Stops,
              fmt::format("{}; stopped {}{}", over, where_text(run),
                          stopping.by.empty() ? "" : fmt::format(", as {} asked", stopping.by)));
      cancel_waiting(turn);
      resolve_failures(turn);
      return;
    case Goal::Next:
      turn.go(Queued{}, Trigger::TaskEnds, fmt::format("{} {}", over, where_text(run)));
      return supply::ensure(turn, "");
    case Goal::Hold: return;
  }
}

// The next task is to follow. Not so after an operator ordered it to exit: resumed since, its run
// continues no matter who ended it.
bool leaves_by_plan(const Stopping& stopping) {
  return stopping.goal == Goal::Next && stopping.by.empty();
}

void end_stopped_task(Turn& turn, const TaskEnd& end) {
  RunState& run = turn.r();
  const Stopping stopping = *turn.in<Stopping>();
  if (finished_script(turn, end)) return;
  if (finished_by_file(run))
    return finish(turn,
                  fmt::format("{}; {} is there", end.sentence, run.policy.train.finished.file));
  if (end.live && end.live->outcome && classify(run, *end.live->outcome) == EndKind::Finished)
    return finish(turn, fmt::format("{}; all ranks ended with 0", end.sentence));
  if (end.is_by_hand() && !end.chain && leaves_by_plan(stopping)) {
    turn.go(Queued{}, Trigger::TaskEnds, end.sentence);
    return supply::decide_hand_cancel(turn, end.seen());
  }
  if (end.is_by_hand()) supply::warn_cancelled(turn, end.seen());
  leave_stopping(turn, stopping, end.sentence);
}

void order_generation_to_exit(Turn& turn) {
  set_level(turn.r(), turn.in<Stopping>()->level);
}

void stop_again(Turn& turn, const StopAsked& asked) {
  const bool harder = turn.in<Stopping>()->step > 0;
  stop_running(turn, {harder ? wire::Level::LeaveNow : asked.level, asked.by, asked.sentence});
}

// It leaves all the same: what comes after it changes.
void resume_after_stop(Turn& turn, const std::string& sentence) {
  turn.in<Stopping>()->goal = Goal::Next;
  turn.say(sentence + "; the exiting task ends, and the next one resumes");
}

void put_escalation_off(RunState& run, Instant now, Duration away) {
  put_off(std::get<Stopping>(run.training).escalate_at, now, away);
}

// The word to save could not be read.
void wait_for_exit(RunState& run, Instant now) {
  auto& stopping = std::get<Stopping>(run.training);
  if (stopping.step == 0)
    stopping.escalate_at = std::max(stopping.escalate_at, now + patience(run, stopping.level));
}

// The request to save and exit does not reach the agents.
void wait_for_directory(Turn& turn) {
  const RunState& run = turn.r();
  auto& stopping = *turn.in<Stopping>();
  stopping.escalate_at = turn.now() + kBlindRetry;
  const char* why =
      run.conditions.no_room_since ? "there is no room under" : "no answer comes from";
  raise(turn, {Severity::Warning, kStopWaits,
               fmt::format("{} trains on: the request to save and exit cannot be written, as {} {}",
                           turn.name().text, why, run.policy.directory),
               stopping.goal == Goal::Stop
                   ? command_text(turn.name(), "stop",
                                  "--now   # without a save; once it can be written, with one")
                   : fmt::format("df -h {0}; df -i {0}", run.policy.directory),
               ""});
}

}  // namespace

std::optional<Instant> escalate_at(const SiteState&, const RunState& run) {
  const auto* stopping = std::get_if<Stopping>(&run.training);
  if (stopping == nullptr) return std::nullopt;
  return stopping->escalate_at;
}

void escalate(Turn& turn) {
  RunState& run = turn.r();
  auto& stopping = *turn.in<Stopping>();
  if (running_submission(run) == nullptr) {  // nothing of ours runs any more
    if (!run.live) return leave_stopping(turn, Stopping(stopping), "the run has no task left");
    stopping.escalate_at = turn.now() + wire::kLeftOver;
    return;
  }
  const bool gone = !run.live || run.live->goodbye_at || !has_agents(run.policy);
  if (stopping.step == 0 && !gone && run.conditions.is_cut_off()) return wait_for_directory(turn);
  if (stopping.step == 0 && !gone) {
    Stopping next = stopping;
    next.step = 1;
    next.level = wire::Level::LeaveNow;
    next.escalate_at = turn.now() + patience(run, next.level);
    const std::string sentence =
        fmt::format("the training did not save and exit within {}; requesting exit without saving",
                    format_duration(patience(run, wire::Level::SaveAndLeave)));
    turn.go(next, Trigger::Leaves, sentence);
    set_level(run, next.level);
    return write_control(turn, sentence);
  }
  if (turn.blind() || is_cancel_retried(turn)) {
    stopping.escalate_at = turn.now() + kBlindRetry;
    return;
  }
  Stopping next = stopping;
  next.step = std::max(2, stopping.step + 1);
  next.escalate_at = turn.now() + wire::kLeftOver;
  turn.go(next, Trigger::Leaves,
          fmt::format("the task is still there{}; cancelling it through the scheduler{}",
                      gone && has_agents(run.policy) ? " after its agents exited" : "",
                      next.step > 2 ? fmt::format(", time {}", next.step - 1) : ""));
  cancel_task(turn);
  if (next.step - 1 == kCancelPages)
    raise(turn, {Severity::Critical, "limbo",
                 fmt::format("a task of {} does not end though it was cancelled {} times",
                             turn.name().text, kCancelPages),
                 fmt::format("scontrol show job {}", running_submission(run)->job.text()), ""});
}

const Reactions& reactions(const Stopping&) {
  static constexpr Reactions kStopping{
      .task_runs = known_task,
      .task_ends = end_stopped_task,
      .generation_starts = order_generation_to_exit,
      .ranks_start = begin_no_ranks,
      .iterates = ignore,
      .heartbeats = unwatched,
      .rank_exits = ignore,
      .attempt_ends = end_ordered_attempt,
      .agent_lost = say_lost_agent,
      .lead_silent = ignore,
      .stop = stop_again,
      .resume = resume_after_stop,
      .added_again = keep_until_next_start,
      .finish_file = wait_for_ranks,
      .daemon_back = put_escalation_off,
      .room_again = wait_for_exit,
  };
  return kStopping;
}

}  // namespace training

}  // namespace stoker::core
