// Jobs that the scheduler has forgotten or lost: it denied them twice, or gave their id away. That
// is no proof that their processes are gone: agents that still speak are alive, and silence counts
// only where no agent ever reported or the lead has fallen silent.
#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/script.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core::supply {
namespace {

// Somebody of this submission still speaks, or may speak soon. A script says no goodbye: its logs
// are its voice, and a silence that would be called a hang ends it.
bool speaks(const Turn& turn, const Submission& s) {
  const RunState& run = turn.r();
  if (!run.live || run.live->token != s.token) return false;
  if (has_agents(run.policy)) return !run.live->goodbye_at && !run.live->lead_silent;
  const Instant last = std::max(run.health.progress.newest, run.live->attempt_at);
  return turn.now() - last < std::min(run.policy.hang.ceiling, script::kOrphanGrace);
}

// A script's job that no look saw running, and nothing else is queued: should it have run and been
// lost, only logs and checkpoints show what is left of it.
bool may_run_unseen(const RunState& run) {
  return !has_agents(run.policy) &&
         std::none_of(run.jobs.supply.begin(), run.jobs.supply.end(),
                      [](const auto& entry) { return entry.second.live(); });
}

}  // namespace

void on_job_gone(Turn& turn, const JobGone& gone) {
  RunState& run = turn.r();
  const auto found = run.jobs.supply.find(gone.token);
  if (found == run.jobs.supply.end() || !found->second.live()) return;
  Submission& s = found->second;
  if (s.job.job != gone.job.job || std::holds_alternative<Ending>(s.state)) return;
  if (speaks(turn, s)) {
    const std::string text = fmt::format(
        "{} is unknown to the scheduler ({}), but its {}: it counts as running", job_text(gone.job),
        gone.why, has_agents(run.policy) ? "agents report" : "logs grew recently");
    turn.say(text);
    raise(turn, {Severity::Warning, "job_unknown", text, command_text(turn.name(), "why"), ""});
    return;
  }
  s.rest_cancelled = s.rest_gone = true;
  if (const std::uint32_t task = running_task(s); task != 0) {
    JobSeen end;
    end.token = s.token;
    end.job = JobId{s.job.job, task};
    end.state = JobState::Completed;
    end.forgotten = true;
    turn.say(fmt::format("{} is gone: {}", job_text(end.job), gone.why));
    turn.go(s, Ending{task, end, turn.now()}, SupplyTrigger::TaskOver);
    return decide_end(turn, s);
  }
  turn.go(s, Terminal{"gone"}, SupplyTrigger::Exhausted);
  const std::string text =
      fmt::format("{} is gone from the queue: {}", job_text(gone.job), gone.why);
  run.jobs.may_write = run.jobs.may_write || may_run_unseen(run);
  if (turn.in<training::Queued>() == nullptr) return turn.say(text);
  if (run.jobs.may_write &&
      script::wait_for_stillness(turn, Trigger::TaskEnds, text, "its processes"))
    return;
  ensure(turn, text);
}

}  // namespace stoker::core::supply
