// Starting: from the job's first sign of life to the first completed iteration. Ends with that, or
// with the silence of all agents; the hang detector has the deadlines of the ranks' phases.
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/suspended.hpp"
#include "core/timers.hpp"
#include "core/training/reactions.hpp"

namespace stoker::core::training {
namespace {

void count_silence_from_now(RunState& run, Instant now) {
  std::get<Starting>(run.training).silent_since = now;
}
void count_silence_of_daemon(RunState& run, Instant now, Duration) {
  count_silence_from_now(run, now);
}
void hear_generation(Turn& turn) {
  count_silence_from_now(turn.r(), turn.now());
}

// The first completed iteration of an attempt, or its entry into the loop.
void enter_training(Turn& turn) {
  RunState& run = turn.r();
  std::string sentence;
  if (run.recovery.incident) {
    const Incident& incident = *run.recovery.incident;
    const std::uint64_t from = run.live->loaded.value;
    const std::uint64_t reached = incident.iteration.value;
    const std::uint64_t repeated = reached > from ? reached - from : 0;
    sentence = fmt::format("training again from iteration {} after {}: {} to repeat", from,
                           format_duration(turn.now() - incident.since),
                           count_text(repeated, "iteration"));
    if (const std::string cost = incident_cost_text(run, repeated); !cost.empty())
      sentence += "; " + cost;
    if (!run.accounting.goodput.incidents.empty())
      run.accounting.goodput.incidents.back().repeated = repeated;
  } else {
    sentence = fmt::format("training from iteration {}", run.live->loaded.value);
  }
  turn.go(Training{}, Trigger::Iterates, sentence);
  run.recovery.incident.reset();
  resolve_failures(turn);
}

}  // namespace

std::optional<Instant> agents_due(const SiteState&, const RunState& run) {
  const auto* starting = std::get_if<Starting>(&run.training);
  if (starting == nullptr || run.live || supply::is_suspended(run)) return std::nullopt;
  return starting->silent_since + run.policy.hang.startup;
}

void agents_silent(Turn& turn) {
  RunState& run = turn.r();
  auto& starting = *turn.in<Starting>();
  if (run.conditions.is_cut_off()) {  // their reports do not pass
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

const Reactions& reactions(const Starting&) {
  static constexpr Reactions kStarting{
      .task_runs = known_task,
      .task_ends = lose_task,
      .generation_starts = hear_generation,
      .ranks_start = begin_ranks,
      .iterates = enter_training,
      .heartbeats = watch_heartbeats,
      .rank_exits = on_rank_failed,
      .attempt_ends = end_attempt,
      .agent_lost = recover,
      .lead_silent = suspect_lead,
      .stop = stop_running,
      .resume = resume_running,
      .added_again = keep_until_next_start,
      .finish_file = wait_for_ranks,
      .daemon_back = count_silence_of_daemon,
      .room_again = count_silence_from_now,
  };
  return kStarting;
}

}  // namespace stoker::core::training
