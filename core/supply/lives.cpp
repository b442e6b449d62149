// Two witnesses: the scheduler says that a task is over, and its agents go on telling of completed
// iterations. The agents are right: no one else could write their lines.
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core::supply {
namespace {

// Lines that were on their way when the task ended have arrived, and ranks that were ordered to end
// are gone.
constexpr Duration kLastLines = 60s;

}  // namespace

void hear_after_the_end(Turn& turn, const Digest& digest) {
  RunState& run = turn.r();
  if (run.live || !run.jobs.over || run.jobs.over->live.generation != digest.generation) return;
  if (digest.generation != run.newest || digest.last.iteration_max <= run.jobs.over->iteration)
    return;
  if (turn.now() - run.jobs.over->at < kLastLines) return;
  const auto found = run.jobs.supply.find(run.jobs.over->live.token);
  if (found == run.jobs.supply.end()) return;
  Submission& s = found->second;
  if (running_task(s) != 0) return;  // a later task: the claims decide
  const JobId job = run.jobs.over->live.job;
  const std::string text = fmt::format(
      "{} was reported as ended {} ago, but its ranks completed iteration {}: it is running",
      job_text(job), format_duration(turn.now() - run.jobs.over->at),
      digest.last.iteration_max.value);
  turn.go(s, Running{job.task}, SupplyTrigger::Runs);
  s.tasks[job.task].state = JobState::Running;
  run.live = run.jobs.over->live;
  run.jobs.over.reset();
  run.recovery.incident.reset();  // it was not one
  raise(turn, {Severity::Warning, "job_unknown", text, command_text(turn.name(), "why"), ""});
  if (turn.kind() == TrainingKind::Queued || turn.kind() == TrainingKind::Idle)
    return turn.go(training::Starting{turn.now()}, Trigger::JobRuns, text);
  turn.say(fmt::format("{}; the run is {}: it must exit", text, state_name(run.training)));
  set_level(run, wire::Level::LeaveNow);
  write_control(turn, text);
}

}  // namespace stoker::core::supply
