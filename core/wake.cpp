// wake_at(): the earliest moment at which some concern of a run wants a Tick. What happens then is
// on_time's; each line here has its counterpart there.
#include <algorithm>

#include "core/recover/save_interval.hpp"
#include "core/signals/detect.hpp"
#include "core/signals/probe.hpp"
#include "core/step.hpp"
#include "core/supply/command.hpp"

namespace stoker::core {
namespace {

void earliest(std::optional<Instant>& best, Instant at) {
  if (!best || at < *best) best = at;
}

void wake_for_supply(std::optional<Instant>& at, const RunState& run) {
  for (const auto& [token, s] : run.supply) {
    if (const auto* unknown = std::get_if<supply::Unknown>(&s.state)) earliest(at, unknown->ask_at);
    if (const auto* ending = std::get_if<supply::Ending>(&s.state)) earliest(at, ending->decide_at);
  }
}

}  // namespace

std::optional<Instant> wake_at(const SiteState& state, const RunState& run) {
  std::optional<Instant> at;
  wake_for_supply(at, run);
  for (const Retry& retry : state.retries)
    if (retry.effect.run == run.policy.run) earliest(at, retry.at);
  if (run.planned_stop && run.planned_stop->at) earliest(at, *run.planned_stop->at);
  if (run.save && !run.save->taken) earliest(at, run.save->repeat_at);
  if (const auto save = interval_save_at(run)) earliest(at, *save);
  const bool watched = std::holds_alternative<training::Starting>(run.training) ||
                       std::holds_alternative<training::Training>(run.training);
  if (watched) {
    if (const auto limit = signals::limit_at(run, state.now, state.wall)) earliest(at, *limit);
    if (run.live && run.live->goodbye_at) earliest(at, probe::limbo_at(*run.live));
    // The hang detector needs a fresh digest when the oldest progress comes of age.
    const bool digests = run.live && run.live->attempt.value > 0 && !run.live->goodbye_at &&
                         !run.live->outcome && !run.live->lead_silent;
    const Duration beat = wire::beat_every(run.policy.hang.floor);
    const Duration early = has_agents(run.policy) ? beat / 2 : Duration(0s);
    if (digests && run.progress.deadline > 0ns)
      earliest(at, std::max(run.progress.oldest + run.progress.deadline, state.now + beat) - early);
  }
  if (std::holds_alternative<training::Training>(run.training) &&
      run.overdue_told != run.checkpoint.iteration)
    if (const auto due = signals::save_due_by(run)) earliest(at, *due);
  if (const auto* s = std::get_if<training::Starting>(&run.training); s != nullptr && !run.live)
    earliest(at, s->silent_since + run.policy.hang.startup);
  if (const auto* s = std::get_if<training::Suspect>(&run.training)) earliest(at, s->act_at);
  if (const auto* s = std::get_if<training::Stopping>(&run.training)) earliest(at, s->escalate_at);
  if (const auto* s = std::get_if<training::Recovering>(&run.training)) earliest(at, s->repeat_at);
  if (const auto* s = std::get_if<training::Queued>(&run.training); s != nullptr && s->submit_at)
    earliest(at, *s->submit_at);
  const auto* held = std::get_if<training::Held>(&run.training);
  if (held != nullptr && held->retry_at) earliest(at, *held->retry_at);
  const bool over = (held != nullptr && !held->retry_at) ||
                    std::holds_alternative<training::Finished>(run.training) ||
                    std::holds_alternative<training::Stopped>(run.training);
  if (over && running_submission(run) != nullptr) earliest(at, run.leftover_at);
  return at;
}

std::optional<Instant> wake_at(const SiteState& state) {
  std::optional<Instant> at;
  for (const auto& [name, run] : state.runs)
    if (const auto own = wake_at(state, run)) earliest(at, *own);
  for (const Retry& retry : state.retries)
    if (retry.effect.run.empty()) earliest(at, retry.at);
  return at;
}

}  // namespace stoker::core
