// What Idle, Queued, Held, Finished and Stopped share: no rank of the run is at work, so that what
// the agents of a job report changes nothing, and a stop or a resume has nothing to wait for.
#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/recover/end.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"
#include "core/timers.hpp"
#include "core/training/reactions.hpp"
#include "wire/time_limits.hpp"

namespace stoker::core::training {

RunningTask unwanted_task(const RunState&) {
  return RunningTask::Unwanted;
}

void say_task_end(Turn& turn, const TaskEnd& end) {
  turn.say(end.sentence);
}

void say_ranks_start(Turn& turn, const wire::AttemptStarted&, const std::string& sentence) {
  turn.say(sentence);  // what was reached stays on show
}

void begin_no_ranks(Turn& turn, const wire::AttemptStarted& e, const std::string& sentence) {
  begin_attempt(turn, e);
  turn.say(sentence);
}

void say_lost_agent(Turn& turn, const Failure& failure) {
  turn.say(failure.evidence);
}

void note_outcome(Turn& turn, const Outcome& outcome) {
  turn.r().live->outcome = outcome;
}

void say_finish_file(Turn& turn, const std::string& sentence) {
  turn.say(sentence);
}

void stop_resting(Turn& turn, const StopAsked& asked) {
  cancel_all(turn);
  turn.go(Stopped{asked.by}, Trigger::Stops, asked.sentence);
  resolve_failures(turn);
}

void refuse_stop(Turn& turn, const StopAsked& asked) {
  turn.reject(
      fmt::format("{}; the run is {} already", asked.sentence, state_name(turn.r().training)));
}

void forgive(Turn& turn) {
  RunState& run = turn.r();
  run.recovery.budget.without_progress = 0;
  run.recovery.budget.spent =
      std::min(run.recovery.budget.spent, run.policy.recover.restarts_total / 2);
  run.recovery.disk_full = run.recovery.refused = run.jobs.failed_submits = 0;
  resolve_failures(turn);
}

void submit_resumed(Turn& turn, const std::string& sentence) {
  for (const auto& [token, s] : turn.r().jobs.supply)
    if (s.live())  // still being cancelled: its proven end leads to the submission
      return turn.go(Queued{}, Trigger::Submits,
                     fmt::format("{}; waiting for the end of {}", sentence, job_text(s.job)));
  supply::submit(turn, sentence);
}

void resume_resting(Turn& turn, const std::string& sentence) {
  forgive(turn);
  submit_resumed(turn, sentence);
}

void stay_until_resume(Turn& turn, bool) {
  turn.say(fmt::format("it stays {} until `{}`", state_name(turn.r().training),
                       command_text(turn.name(), "resume")));
}

// A run that is over (finished, stopped or held for an operator) has a task that still runs.
std::optional<Instant> leftover_at(const SiteState&, const RunState& run) {
  if (!is_over(run.training) || running_submission(run) == nullptr) return std::nullopt;
  return run.jobs.leftover_at;
}

void cancel_leftover(Turn& turn) {
  RunState& run = turn.r();
  run.jobs.leftover_at = turn.now() + wire::kLeftOver;
  cancel_again(turn, fmt::format("the run is {} but its task is still there; cancelling it",
                                 state_name(run.training)));
}

}  // namespace stoker::core::training
