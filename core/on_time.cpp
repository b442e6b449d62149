// What happens when a moment has come that wake_at() named. The two must agree: a moment that stays
// due after on_time would spin.
#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/handlers.hpp"
#include "core/recover/recover.hpp"
#include "core/recover/save_interval.hpp"
#include "core/sentence.hpp"
#include "core/signals/detect.hpp"
#include "core/signals/probe.hpp"
#include "core/supply/command.hpp"
#include "core/supply/script.hpp"
#include "core/supply/supply.hpp"
#include "wire/time_limits.hpp"

namespace stoker::core {
namespace {

constexpr Duration kBlindRetry = 30s;
constexpr int kCancelPages = 4;

// Cancels the task again, unless the scheduler is blind (unknown is not dead), or the last cancel
// has not arrived yet.
void cancel_again(Turn& turn, const std::string& sentence) {
  if (turn.blind() || is_cancel_retried(turn)) return;
  turn.say(sentence);
  cancel_task(turn);
}

void stopping_due(Turn& turn) {
  RunState& run = turn.r();
  auto& stopping = *turn.in<training::Stopping>();
  if (stopping.escalate_at > turn.now()) return;
  if (running_submission(run) == nullptr) {  // nothing of ours runs any more
    stopping.escalate_at = turn.now() + wire::kLeftOver;
    return;
  }
  const bool gone = !run.live || run.live->goodbye_at || !has_agents(run.policy);
  if (stopping.step == 0 && !gone && run.no_room_since) {  // the word to save could not be written
    stopping.escalate_at = turn.now() + kBlindRetry;
    return;
  }
  if (stopping.step == 0 && !gone) {
    training::Stopping next = stopping;
    next.step = 1;
    next.level = wire::Level::LeaveNow;
    next.escalate_at = turn.now() + patience(run, next.level);
    const std::string sentence =
        fmt::format("the training did not save and exit within {}; requesting exit without saving",
                    format_duration(patience(run, wire::Level::SaveAndLeave)));
    turn.go(next, Trigger::Leaves, sentence);
    run.control.level = next.level;
    return write_control(turn, sentence);
  }
  if (turn.blind() || is_cancel_retried(turn)) {
    stopping.escalate_at = turn.now() + kBlindRetry;
    return;
  }
  training::Stopping next = stopping;
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

void recovering_due(Turn& turn) {
  RunState& run = turn.r();
  auto& recovering = *turn.in<training::Recovering>();
  if (recovering.rung == training::Rung::InAllocation) {
    const bool gone = run.live && (run.live->goodbye_at || run.live->lead_silent);
    if (run.no_room_since &&
        !(run.live && run.live->goodbye_at)) {  // neither the command nor the answer can be written
      if (recovering.repeat_at <= turn.now()) recovering.repeat_at = turn.now() + kBlindRetry;
      recovering.give_up_at = std::max(recovering.give_up_at, recovering.repeat_at);
      return;
    }
    if (recovering.give_up_at <= turn.now() || (gone && recovering.repeat_at <= turn.now())) {
      const training::Recovering before = recovering;
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
    turn.go(training::Queued{}, Trigger::TaskEnds, "the run has no task left");
    return supply::ensure(turn, "");
  }
  cancel_again(turn, fmt::format("the task is still there after {}; cancelling it again",
                                 format_duration(turn.now() - recovering.since)));
}

void suspect_due(Turn& turn) {
  auto& suspect = *turn.in<training::Suspect>();
  if (suspect.act_at > turn.now()) return;
  if (suspect.symptom == training::Symptom::LeadSilent &&
      (turn.blind() || turn.r().no_room_since)) {
    suspect.act_at = turn.now() + kBlindRetry;  // unknown is not dead
    return;
  }
  const bool on_slurm = probe::is_wanted(turn.r().policy);
  if (on_slurm && suspect.symptom == training::Symptom::LeadSilent)
    return probe::on_silence_due(turn);
  if (on_slurm && !has_agents(turn.r().policy)) return probe::on_script_silence_due(turn);
  act_on_suspicion(turn);
}

void limit_due(Turn& turn) {
  RunState& run = turn.r();
  if (turn.kind() != TrainingKind::Training && turn.kind() != TrainingKind::Starting) return;
  const auto at = signals::limit_at(run, turn.now(), turn.event.wall);
  if (!at || *at > turn.now()) return;
  const auto& step = turn.site.clock_step;
  const bool jumped = step && step->by > 0ns && turn.now() - step->at < 1min;
  leave(turn, training::Goal::Next, wire::Level::SaveAndLeave,
        fmt::format(
            "{}the time limit of {} is {} away; saving and exiting so that the next task continues",
            jumped ? fmt::format("the clock of this host was set forward by {}: ",
                                 format_duration(step->by))
                   : "",
            job_text(run.live ? run.live->job : running_submission(run)->job),
            format_duration(signals::limit_margin(run))));
}

void save_due(Turn& turn) {
  RunState& run = turn.r();
  if (!run.save || run.save->taken || run.save->repeat_at > turn.now()) return;
  if (run.no_room_since) {
    run.save->repeat_at = turn.now() + kBlindRetry;
    return;
  }
  SaveRequest& save = *run.save;
  ++save.repeats;
  save.repeat_at = turn.now() + 30s * std::min(save.repeats + 1, 10);
  turn.say(fmt::format("save request {} was not acknowledged for {}; repeating it", save.counter,
                       format_duration(turn.now() - save.asked_at)));
  write_control(turn, "save, requested again");
  if (save.repeats == 2)
    raise(turn, {Severity::Warning, "save_unanswered",
                 fmt::format("{} does not acknowledge a request to save", turn.name().text),
                 command_text(turn.name(), "stacks"), ""});
}

void interval_due(Turn& turn) {
  RunState& run = turn.r();
  const auto at = interval_save_at(run);
  if (!at || *at > turn.now()) return;
  const Duration interval = *save_interval(run);
  run.interval_asked = turn.now();
  const bool own = run.policy.checkpoints.interval_auto;
  ask_save(turn, "checkpoints.interval",
           fmt::format(
               "{} since the last save{}: saving", format_duration(interval),
               own ? fmt::format(" (Daly, {} so far)", count_text(run.budget.restarts, "failure"))
                   : ""));
}

void limbo_due(Turn& turn) {  // the generation said goodbye, the job is still running
  RunState& run = turn.r();
  if (!run.live || !run.live->goodbye_at || probe::limbo_at(*run.live) > turn.now()) return;
  if (turn.in<training::Training>() == nullptr && turn.in<training::Starting>() == nullptr &&
      turn.in<training::Suspect>() == nullptr)
    return;
  probe::on_limbo_due(turn);
}

void start_due(Turn& turn) {  // the job runs, and not one agent has spoken
  RunState& run = turn.r();
  auto* starting = turn.in<training::Starting>();
  if (starting != nullptr && run.no_room_since) starting->silent_since = turn.now();
  if (starting == nullptr || run.live ||
      starting->silent_since + run.policy.hang.startup > turn.now())
    return;
  Failure failure;
  failure.kind = "agents_silent";
  failure.inside = false;
  failure.evidence = fmt::format("no agent has reported for {} since the job started (limit {})",
                                 format_duration(turn.now() - starting->silent_since),
                                 format_duration(run.policy.hang.startup));
  recover(turn, failure);
}

void held_due(Turn& turn) {
  RunState& run = turn.r();
  auto* held = turn.in<training::Held>();
  if (held == nullptr || !held->retry_at || *held->retry_at > turn.now()) return;
  held->retry_at.reset();
  if (can_restart_inside(turn))
    return restart_inside(turn, "disk_full", "trying again after the pause");
  bool live = false;
  for (const auto& [token, s] : run.supply) live = live || s.live();
  if (live)
    turn.go(training::Queued{}, Trigger::Submits, "trying again after the pause in the next task");
  else
    supply::submit(turn, "trying again after the pause");
}

void leftover_due(Turn& turn) {  // over, and a task of it still runs
  RunState& run = turn.r();
  if (turn.kind() != TrainingKind::Held && turn.kind() != TrainingKind::Finished &&
      turn.kind() != TrainingKind::Stopped)
    return;
  if (const auto* held = turn.in<training::Held>(); held != nullptr && held->retry_at) return;
  if (running_submission(run) == nullptr || run.leftover_at > turn.now()) return;
  run.leftover_at = turn.now() + wire::kLeftOver;
  cancel_again(turn, fmt::format("the run is {} but its task is still there; cancelling it",
                                 state_name(run.training)));
}

void overdue_due(Turn& turn) {
  RunState& run = turn.r();
  if (turn.kind() != TrainingKind::Training || run.overdue_told == run.checkpoint.iteration) return;
  const auto overdue = signals::save_overdue(run, turn.now());
  if (!overdue) return;
  run.overdue_told = run.checkpoint.iteration;
  turn.say(*overdue);
  raise(turn, {Severity::Warning, "save_overdue", fmt::format("{}: {}", turn.name().text, *overdue),
               command_text(turn.name(), "save"), ""});
}

void supply_due(Turn& turn) {
  RunState& run = turn.r();
  for (auto& [token, s] : run.supply)
    if (auto* unknown = std::get_if<supply::Unknown>(&s.state);
        unknown != nullptr && unknown->ask_at <= turn.now())
      supply::look_up(turn, s);
  for (auto& [token, s] : run.supply)
    if (auto* ending = std::get_if<supply::Ending>(&s.state);
        ending != nullptr && ending->decide_at <= turn.now()) {
      supply::decide_end(turn, s);
      break;
    }
  if (auto* queued = turn.in<training::Queued>();
      queued != nullptr && queued->submit_at && *queued->submit_at <= turn.now()) {
    queued->submit_at.reset();
    if (queued->tree) return script::look_again(turn);
    supply::ensure(turn, "the pause is over");
  }
}

}  // namespace

void on_time(Turn& turn) {
  RunState& run = turn.r();
  retry_effects(turn);
  supply_due(turn);
  if (turn.in<training::Stopping>() != nullptr) stopping_due(turn);
  if (turn.in<training::Recovering>() != nullptr) recovering_due(turn);
  if (turn.in<training::Suspect>() != nullptr) suspect_due(turn);
  if (run.planned_stop && run.planned_stop->at && *run.planned_stop->at <= turn.now()) {
    const PlannedStop planned = *run.planned_stop;
    stop_now(turn, wire::Level::SaveAndLeave, planned.by,
             fmt::format("the planned time is reached: stopping, as {} asked", planned.by));
  }
  limit_due(turn);
  limbo_due(turn);
  start_due(turn);
  save_due(turn);
  interval_due(turn);
  held_due(turn);
  leftover_due(turn);
  overdue_due(turn);
}

}  // namespace stoker::core
