#include "core/supply/suspended.hpp"

#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/training/reactions.hpp"

namespace stoker::core::supply {

bool is_suspended(const RunState& run) {
  const Submission* s = running_submission(run);
  if (s == nullptr) return false;
  const auto task = s->tasks.find(running_task(*s));
  return task != s->tasks.end() && task->second.state == JobState::Suspended;
}

void heed_suspension(Turn& turn, const Submission& s, const JobSeen& seen, JobState before) {
  if (!std::holds_alternative<Running>(s.state) || running_task(s) != seen.job.task) return;
  const bool stands = seen.state == JobState::Suspended, stood = before == JobState::Suspended;
  Instant& since = turn.r().conditions.suspended_at;
  if (stands && !stood) {
    since = turn.now();
    const std::string text = fmt::format(
        "{} is suspended by the scheduler: its processes stand still; stoker waits until it goes "
        "on, and counts no silence meanwhile",
        job_text(seen.job));
    turn.say(text);
    raise(turn, {Severity::Warning, "suspended", fmt::format("{}: {}", turn.name().text, text),
                 fmt::format("scontrol show job {}", seen.job.text()), ""});
    return training::excuse_silence(turn, fmt::format("{} is suspended", job_text(seen.job)));
  }
  if (stands || !stood) return;
  turn.r().conditions.resumed_at = turn.now();
  resolve(turn, "suspended");
  if (is_terminal(seen.state)) return;
  turn.say(fmt::format("{} goes on after {} of suspension", job_text(seen.job),
                       format_duration(turn.now() - since)));
  training::count_silence_again(turn);
}

}  // namespace stoker::core::supply
