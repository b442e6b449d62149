// The end of a task, taken into account once: what its agents said comes first, the scheduler's
// word second.
#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "core/alerts/alerting.hpp"
#include "core/nodes/accuse.hpp"
#include "core/recover/end.hpp"
#include "core/recover/recover.hpp"
#include "core/recover/rollback.hpp"
#include "core/sentence.hpp"
#include "core/signals/detect.hpp"
#include "core/supply/command.hpp"
#include "core/supply/scheduler_traits.hpp"
#include "core/supply/script.hpp"
#include "core/supply/supply.hpp"
#include "core/timers.hpp"
#include "core/training/reactions.hpp"

namespace stoker::core::supply {
namespace {

// A task that was cancelled by hand was one of a chain: others wait behind it, in its own array or
// in the next submission. Not so when what was behind it in its array was cancelled with it.
bool chain_goes_on(const RunState& run, const Submission& s, std::uint32_t task, bool more) {
  if (more) return true;
  const bool rest =
      s.rest_cancelled || std::any_of(s.tasks.begin(), s.tasks.end(), [&](const auto& entry) {
        return entry.first > task && entry.second.state == JobState::Cancelled;
      });
  return !rest &&
         std::any_of(run.jobs.supply.begin(), run.jobs.supply.end(), [&](const auto& entry) {
           return entry.first != s.token && entry.second.live() && entry.second.waiting() > 0;
         });
}

// What trains is of a later task: the end of an earlier one, seen late, is nothing to it.
bool is_of_the_past(const RunState& run, const Submission& s, const Ending& ending) {
  const auto& live = run.live;
  if (!live || live->goodbye_at) return false;
  if (live->token == s.token) return live->job.task > ending.task;
  const auto other = run.jobs.supply.find(live->token);
  return other != run.jobs.supply.end() && other->second.order > s.order;
}

// The later one may have ended as well before this end was decided: then its end is the next.
bool turn_to_the_next(Turn& turn, Submission& s) {
  const LiveGeneration& live = *turn.r().live;
  if (live.token != s.token) return false;
  const auto end = std::exchange(s.tasks[live.job.task].early_end, std::nullopt);
  if (!end) return false;
  const Duration wait = traits_of(turn.r().policy.scheduler.kind).last_words;
  turn.say(fmt::format("{} ended with {}; waiting up to {} for the last reports of its agents",
                       job_text(end->job), stoker::name_of(end->state), format_duration(wait)));
  std::get<Ending>(s.state) = Ending{live.job.task, *end, turn.now() + wait};
  return true;
}

// The generation is over with its task. Agents that had not said that they leave may go on all the
// same, which is remembered; those of a lost node do so for a while, and have been ordered to exit.
std::optional<LiveGeneration> take_live(Turn& turn, JobState end) {
  RunState& run = turn.r();
  std::optional<LiveGeneration> live = std::move(run.live);
  run.live.reset();
  run.jobs.over.reset();
  if (live && has_agents(run.policy) && !live->goodbye_at && !live->outcome &&
      end != JobState::NodeFail)
    run.jobs.over = Over{*live, turn.now(), run.health.progress.iteration};
  return live;
}

}  // namespace

void supersede(Turn& turn, const Token& token) {
  RunState& run = turn.r();
  for (auto& [other, s] : run.jobs.supply) {
    const std::uint32_t task = running_task(s);
    if (other == token || task == 0) continue;
    if (std::holds_alternative<Running>(s.state)) {
      JobSeen end;
      end.token = other;
      end.job = JobId{s.job.job, task};
      end.state = JobState::Completed;
      turn.go(s, Ending{task, end, turn.now()}, SupplyTrigger::TaskOver);
    }
    s.tasks[task].state = JobState::Completed;
    turn.say(fmt::format("{} is over: a later job of the run has its claim",
                         job_text({s.job.job, task})));
    if (!run.live || !run.live->goodbye_at)
      ++run.recovery.budget.spent, ++run.recovery.budget.without_progress;
    if (s.waiting() > 0)
      turn.go(s, Pending{}, SupplyTrigger::Decided);
    else
      turn.go(s, Terminal{"superseded"}, SupplyTrigger::Exhausted);
    // It was ordered to exit so that the next one continues; the next one is not to exit.
    const auto* stopping = turn.in<training::Stopping>();
    const auto* recovering = turn.in<training::Recovering>();
    if ((stopping != nullptr && stopping->goal == training::Goal::Next) ||
        (recovering != nullptr && recovering->rung != training::Rung::InAllocation))
      turn.go(training::Queued{}, Trigger::TaskEnds, "");
  }
}

void decide_end(Turn& turn, Submission& s) {
  RunState& run = turn.r();
  const Ending ending = std::get<Ending>(s.state);
  const bool asked = s.cancel_asked || ending.end.cancelled_by_us;
  const std::vector<NodeName> nodes = s.tasks[ending.task].nodes;
  s.tasks[ending.task].state = ending.end.state;
  const bool past = is_of_the_past(run, s, ending);
  if (past)
    turn.say(fmt::format("{} is over ({}); generation {} of a later one is what trains",
                         job_text(ending.end.job), stoker::name_of(ending.end.state),
                         run.live->generation.value));
  if (past && turn_to_the_next(turn, s)) return;
  const bool more = s.waiting() > 0 || next_runs(s, ending.task);
  if (more || may_start(run, s) > 0)
    turn.go(s, Pending{}, SupplyTrigger::Decided);
  else
    turn.go(s, Terminal{std::string(stoker::name_of(ending.end.state))}, SupplyTrigger::Exhausted);
  if (more) s.cancel_asked = false;
  if (past) return;
  const bool chain = chain_goes_on(run, s, ending.task, more);
  if (ending.end.state == JobState::NodeFail && run.live && !run.live->goodbye_at) {
    set_level(run, wire::Level::LeaveNow);  // agents that only SLURM has lost, on any node
    write_control(turn, "the scheduler reports the job as ended: the remaining agents must exit");
  }
  training::TaskEnd end{
      ending,
      nodes,
      take_live(turn, ending.end.state),
      asked,
      chain,
      fmt::format("{} is over ({})", job_text(ending.end.job), stoker::name_of(ending.end.state))};
  run.asked.save.reset();
  if (!has_agents(run.policy) && ending.end.state == JobState::NodeFail) run.jobs.may_write = true;
  if (heed_known_end(turn)) return;
  training::reactions_of(run).task_ends(turn, end);
}

std::optional<Instant> decide_end_at(const SiteState&, const RunState& run) {
  std::optional<Instant> at;
  for (const auto& [token, s] : run.jobs.supply)
    if (const auto* ending = std::get_if<Ending>(&s.state)) keep_earliest(at, ending->decide_at);
  return at;
}

void decide_ends(Turn& turn) {
  for (auto& [token, s] : turn.r().jobs.supply)
    if (const auto* ending = std::get_if<Ending>(&s.state);
        ending != nullptr && ending->decide_at <= turn.now())
      return decide_end(turn, s);  // which may change the list; the next one is due at once
}

}  // namespace stoker::core::supply
