// Commands: control.json and cancels.
#include "core/supply/command.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "core/supply/script.hpp"

namespace stoker::core {

void write_control(Turn& turn, const std::string& reason) {
  if (turn.r().live) write_run_control(turn, reason);
}

void write_run_control(Turn& turn, const std::string& reason) {
  RunState& run = turn.r();
  if (!has_agents(run.policy)) return;
  wire::Control& control = run.asked.control;
  control.run = run.policy.run;
  control.epoch = turn.site.epoch;
  control.generation = run.live ? run.live->generation : run.newest;
  control.reason = reason;
  for (Action& action : turn.decision.actions)  // one write a decision: the newest holds everything
    if (auto* earlier = std::get_if<WriteControl>(&action); earlier != nullptr) {
      if (earlier->control.run == control.run) {
        earlier->control = control;
        return;
      }
    }
  turn.act(WriteControl{control});
}

void set_level(RunState& run, wire::Level level, Attempt of) {
  run.asked.control.level = level;
  run.asked.control.leave_of = of;
}

Duration patience(const RunState& run, wire::Level level) {
  switch (level) {
    case wire::Level::SaveAndLeave:
      if (!has_agents(run.policy)) return script::patience(run.policy);
      return std::max<Duration>(2min, from_seconds(3 * run.health.checkpoint.longest_seconds));
    case wire::Level::LeaveNow: return 60s;
    case wire::Level::Run: return 0s;
  }
  return 0s;
}

namespace {

bool runs(const supply::Submission& s) {
  return std::holds_alternative<supply::Running>(s.state);
}

Cancel cancel_of(const supply::Submission& s) {
  Cancel cancel;
  cancel.token = s.token;
  cancel.job = s.job;
  return cancel;
}

Cancel task_cancel_of(const supply::Submission& s) {
  Cancel cancel = cancel_of(s);
  cancel.job.task = running_task(s);
  return cancel;
}

}  // namespace

supply::Submission* running_submission(RunState& run) {
  supply::Submission* newest = nullptr;  // an older one may count as running for want of proof
  for (auto& [token, s] : run.jobs.supply)
    if (runs(s) && (newest == nullptr || newest->order < s.order)) newest = &s;
  if (newest != nullptr) return newest;
  for (auto& [token, s] : run.jobs.supply)
    if (std::holds_alternative<supply::Ending>(s.state)) return &s;
  return nullptr;
}

const supply::Submission* running_submission(const RunState& run) {
  return running_submission(const_cast<RunState&>(run));
}

std::uint32_t running_task(const supply::Submission& submission) {
  if (const auto* running = std::get_if<supply::Running>(&submission.state)) return running->task;
  if (const auto* ending = std::get_if<supply::Ending>(&submission.state)) return ending->task;
  return 0;
}

std::uint32_t may_start(const RunState& run, const supply::Submission& submission) {
  return has_agents(run.policy) ? submission.waiting() : submission.unstarted();
}

void cancel_task(Turn& turn) {
  for (auto& [token, s] : turn.r().jobs.supply) {
    if (!runs(s)) continue;
    s.cancel_asked = true;
    turn.act(task_cancel_of(s));
  }
}

bool is_cancel_retried(const Turn& turn) {
  const supply::Submission* s = running_submission(turn.r());
  if (s == nullptr) return false;
  const Action cancel = task_cancel_of(*s);
  return std::any_of(turn.site.retries.begin(), turn.site.retries.end(), [&](const Retry& retry) {
    return retry.effect.run == turn.name() && retry.effect.action == cancel;
  });
}

void cancel_again(Turn& turn, const std::string& sentence) {
  if (turn.blind() || is_cancel_retried(turn)) return;
  turn.say(sentence);
  cancel_task(turn);
}

// Of a script, a job that was not seen running may run all the same, and has no agents that would
// object: SLURM decides whether it waits.
void cancel_waiting(Turn& turn) {
  for (auto& [token, s] : turn.r().jobs.supply) {
    if (!s.live() || s.rest_cancelled || s.waiting() == 0) continue;
    const bool untouched = !runs(s) && !std::holds_alternative<supply::Ending>(s.state);
    Cancel cancel = cancel_of(s);
    cancel.whole_array = true;
    cancel.pending_only = !untouched || !has_agents(turn.r().policy);
    s.rest_cancelled = true;
    if (untouched) s.cancel_asked = true;
    turn.act(cancel);
  }
}

void cancel_all(Turn& turn) {
  for (auto& [token, s] : turn.r().jobs.supply) {
    if (!s.live()) continue;
    Cancel cancel = cancel_of(s);
    cancel.whole_array = true;
    s.rest_cancelled = true;
    s.cancel_asked = true;
    turn.act(cancel);
  }
}

}  // namespace stoker::core
