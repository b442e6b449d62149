// SLURM's count of an array's running tasks (%1) after one of them has lost a node and goes on with
// the others (--no-kill). Measured on 22.05.8: the task is taken out of the count when it loses the
// node, so the next one starts beside it, and the one after that when that one leaves. Where
// slurmctld was restarted in between, the task is counted again and never taken out: none of the
// array starts after its end, until slurmctld is restarted once more. In both cases the tasks that
// wait are of no use; a new array waits for all that is left of this one (singleton).
#include <algorithm>
#include <fmt/format.h>

#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"
#include "core/timers.hpp"

namespace stoker::core::supply {
namespace {

constexpr Duration kLimitLasts = 5min;  // a busy slurmctld looks at a job that seldom

bool lost_a_node(const Submission& s) {
  return std::any_of(s.tasks.begin(), s.tasks.end(), [&s](const auto& entry) {
    return !entry.second.nodes.empty() && entry.second.nodes.size() < s.nodes;
  });
}

// No task runs, and those that wait do so for one that does.
bool waits_for_no_task(const Submission& s) {
  bool limited = false;
  for (const auto& [number, task] : s.tasks) {
    const bool waits = task.state == JobState::Pending || task.state == JobState::Requeued;
    if (!waits && !is_terminal(task.state)) return false;
    limited = limited || (waits && task.reason == "JobArrayTaskLimit");
  }
  return limited && s.live() && s.waiting() > 0 && !std::holds_alternative<Running>(s.state);
}

const Submission* stuck(const RunState& run) {
  if (!std::holds_alternative<training::Queued>(run.training)) return nullptr;
  for (const auto& [token, s] : run.jobs.supply)
    if (waits_for_no_task(s) && lost_a_node(s)) return &s;
  return nullptr;
}

}  // namespace

void replace_uncounted(Turn& turn, const Submission& s) {
  if (s.waiting() == 0 || turn.r().asked.exact_order || too_many(turn)) return;
  turn.say(
      fmt::format("SLURM no longer counts {}, which has lost a node, so its array's tasks "
                  "would start beside it one after the other: replacing those that wait",
                  job_text({s.job.job, running_task(s)})));
  cancel_waiting(turn);
  top_up(turn);
}

std::optional<Instant> limit_lasts_until(const SiteState& site, const RunState& run) {
  if (site.blind_since || stuck(run) == nullptr) return std::nullopt;
  return run.since + kLimitLasts;
}

void replace_limited(Turn& turn) {
  const Submission* s = stuck(turn.r());
  turn.say(fmt::format(
      "the tasks of job {} wait for one that runs, and none does: SLURM counts a task that lost a "
      "node and is over; replacing them",
      s->job.job));
  cancel_waiting(turn);
}

}  // namespace stoker::core::supply
