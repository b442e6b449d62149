// A job that waits for an operator, or for us: the alert, and its end.
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/pending_reason.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core::supply {
namespace {

bool is_stuck(const Submission& s, const Task& task) {
  const bool waits = task.state == JobState::Pending || task.state == JobState::Requeued;
  const ReasonClass kind = classify_reason(task.reason, !s.exclude.empty()).kind;
  return waits && s.live() && (kind == ReasonClass::Person || kind == ReasonClass::Ours);
}

}  // namespace

void end_if_none_is_stuck(Turn& turn) {
  for (const auto& [token, s] : turn.r().jobs.supply)
    for (const auto& [number, task] : s.tasks)
      if (is_stuck(s, task)) return;
  resolve(turn, "queue_stuck");
}

// A job that waits not for its turn but for an operator, or for us.
void heed_reason(Turn& turn, Submission& s, const JobSeen& seen) {
  const Reason reason = classify_reason(seen.reason, !s.exclude.empty());
  if (reason.kind == ReasonClass::Waiting) return end_if_none_is_stuck(turn);
  const std::string why = fmt::format("{} ({})", seen.reason, reason.meaning);
  if (reason.kind == ReasonClass::Never) {
    if (s.cancel_asked) return;
    turn.say(fmt::format("{} can never start: {}; it is cancelled and replaced", job_text(seen.job),
                         why));
    s.rest_cancelled = s.cancel_asked = true;
    turn.act(Cancel{s.token, JobId{s.job.job, 0}, true, false});
    return end_if_none_is_stuck(turn);
  }
  const bool ours = reason.kind == ReasonClass::Ours;
  turn.say(fmt::format("{} waits for an operator: {}", job_text(seen.job), why));
  raise(turn, {Severity::Critical, "queue_stuck",
               fmt::format("{} cannot start: {}", job_text(seen.job), why),
               ours ? command_text(turn.name(), "nodes", "# then: stoker include NODE...")
                    : fmt::format("scontrol show job {}", seen.job.text()),
               ""});
}

}  // namespace stoker::core::supply
