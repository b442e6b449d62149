// Training: iterations are completed. What is due meanwhile: a word about saves that stay away, and
// a look at the ranks when the one that has been silent for longest reaches its deadline.
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/sentence.hpp"
#include "core/signals/detect.hpp"
#include "core/timers.hpp"

namespace stoker::core::training {
std::optional<Instant> save_overdue_at(const SiteState&, const RunState& run) {
  if (!std::holds_alternative<Training>(run.training) ||
      run.overdue_told == run.checkpoint.iteration)
    return std::nullopt;
  return signals::save_due_by(run);
}

void report_overdue_save(Turn& turn) {
  RunState& run = turn.r();
  run.overdue_told = run.checkpoint.iteration;
  const auto overdue = signals::save_overdue(run, turn.now());
  if (!overdue) return;
  turn.say(*overdue);
  raise(turn, {Severity::Warning, "save_overdue", fmt::format("{}: {}", turn.name().text, *overdue),
               command_text(turn.name(), "save"), ""});
}

}  // namespace stoker::core::training
