// Tasks of the run were cancelled, and not by stoker: a person's decision, which stands.
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core::supply {

// One task was cancelled, not by us, and the chain went on.
void warn_cancelled(Turn& turn, const JobSeen& seen) {
  const std::string text = fmt::format("{} was cancelled{}, not by stoker; the next task continues",
                                       job_text(seen.job), by_whom(seen));
  turn.say(text);
  raise(turn, {Severity::Warning, "cancelled_by_hand", text, command_text(turn.name(), "why"), ""});
}

namespace {

// A scheduler's answer is up to a poll old: a cancel that is seen now may be older than a person's
// `resume`, which would have released the hold. What was submitted after the `resume` was cancelled
// after it.
constexpr Duration kResumeOutlivesCancel = 2min;

bool resumed_since(const Turn& turn, const JobSeen& seen) {
  const RunState& run = turn.r();
  const auto s = run.jobs.supply.find(seen.token);
  return run.asked.resumed_live_at &&
         turn.now() - *run.asked.resumed_live_at <= kResumeOutlivesCancel &&
         s != run.jobs.supply.end() && s->second.intended_at <= *run.asked.resumed_live_at;
}

}  // namespace

void decide_hand_cancel(Turn& turn, const JobSeen& seen) {
  const std::string evidence =
      fmt::format("{} and what was queued behind it were cancelled{}, not by stoker",
                  job_text(seen.job), by_whom(seen));
  if (resumed_since(turn, seen)) {
    const std::string text = fmt::format(
        "{}; `resume` was requested less than {} before that was seen, so the run continues",
        evidence, format_duration(kResumeOutlivesCancel));
    raise(turn,
          {Severity::Warning, "cancelled_by_hand", text, command_text(turn.name(), "why"), ""});
    return ensure(turn, text);
  }
  if (turn.r().policy.recover.on_scancel == OnScancel::Restart)
    return ensure(turn, fmt::format("{}; recover.on_scancel is restart", evidence));
  hold(turn, {"cancelled_by_hand", evidence, "ask who cancelled it and why", {}});
}

}  // namespace stoker::core::supply
