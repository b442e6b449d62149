// Starting: from the job's first sign of life to the first completed iteration. Ends with that, or
// with the silence of all agents; the hang detector has the deadlines of the ranks' phases.
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/followers/followers.hpp"
#include "core/handlers.hpp"
#include "core/recover/recover.hpp"
#include "core/recover/resumed.hpp"
#include "core/sentence.hpp"
#include "core/timers.hpp"

namespace stoker::core {
namespace training {

std::optional<Instant> agents_due(const SiteState&, const RunState& run) {
  const auto* starting = std::get_if<Starting>(&run.training);
  if (starting == nullptr || run.live) return std::nullopt;
  return starting->silent_since + run.policy.hang.startup;
}

void agents_silent(Turn& turn) {
  RunState& run = turn.r();
  auto& starting = *turn.in<Starting>();
  if (run.no_room_since) {  // their reports cannot be written
    starting.silent_since = turn.now();
    return;
  }
  Failure failure;
  failure.kind = "agents_silent";
  failure.inside = false;
  failure.evidence = fmt::format("no agent has reported for {} since the job started (limit {})",
                                 format_duration(turn.now() - starting.silent_since),
                                 format_duration(run.policy.hang.startup));
  recover(turn, failure);
}

}  // namespace training

void enter_training(Turn& turn) {
  RunState& run = turn.r();
  if (turn.in<training::Starting>() == nullptr) return;
  std::string sentence;
  if (run.incident) {
    const Incident& incident = *run.incident;
    const std::uint64_t from = run.live->loaded.value;
    const std::uint64_t reached = incident.iteration.value;
    const std::uint64_t repeated = reached > from ? reached - from : 0;
    sentence = fmt::format("training again from iteration {} after {}: {} to repeat", from,
                           format_duration(turn.now() - incident.since),
                           count_text(repeated, "iteration"));
    if (const std::string cost = incident_cost_text(run, repeated); !cost.empty())
      sentence += "; " + cost;
    if (!run.goodput.incidents.empty()) run.goodput.incidents.back().repeated = repeated;
  } else {
    sentence = fmt::format("training from iteration {}", run.live->loaded.value);
  }
  turn.go(training::Training{}, Trigger::Iterates, sentence);
  run.incident.reset();
  resolve_failures(turn);
}

void note_resumed(Turn& turn, const Digest& digest) {
  LiveGeneration& live = *turn.r().live;
  const auto* suspect = turn.in<training::Suspect>();
  const bool starting =
      turn.in<training::Starting>() != nullptr || (suspect != nullptr && !suspect->iterating);
  if (!starting || live.loaded.value != 0 || !is_foreign(turn.r().policy)) return;
  const Iteration reached = digest.last.iteration_max;
  live.loaded = resumed_at(digest);
  if (!has_agents(turn.r().policy) && digest.iteration_ms.count == 0 && reached.value > 1)
    live.loaded = Iteration(reached.value - 1);  // as far as its logs tell
  if (live.loaded.value > 0) followers::leave_line(turn, live.loaded);
}

}  // namespace stoker::core
