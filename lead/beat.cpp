// The ranks' samples, folded into one beat.
#include <algorithm>

#include "lead/handlers.hpp"

namespace stoker::lead {
namespace {

constexpr double kHungFactor = 3;
constexpr double kHungFloorMs = 2000;

std::int64_t ms(Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

// Completed iterations add up until they are reported.
void add_unreported(wire::NodeBeat& beat, NodeSamples& before) {
  if (beat.ranks.size() != before.ranks.size()) return;
  for (std::size_t i = 0; i < beat.ranks.size(); ++i) {
    beat.ranks[i].completed += before.ranks[i].completed;
    wire::merge(before.ranks[i].losses, beat.ranks[i].losses);
    beat.ranks[i].losses = before.ranks[i].losses;
  }
}

}  // namespace

void take_beat(Turn& turn, const NodeName& node, wire::NodeBeat beat) {
  State& state = turn.state;
  state.agents.at(node).standbys = beat.standbys;
  state.agents.at(node).snapshots = beat.snapshots;
  const bool of_this = beat.attempt == state.attempt;
  if (!of_this) beat.ranks.clear();  // ages of ranks that are gone
  NodeSamples& samples = state.samples[node];
  add_unreported(beat, samples);
  samples.ranks = std::move(beat.ranks);
  samples.free_memory_bytes = beat.free_memory_bytes;
  samples.free_shm_bytes = beat.free_shm_bytes;
  samples.gpu_watts = beat.gpu_watts;
  samples.taken_at = turn.at;
  if (of_this) fold_and_report(turn, Fold::OnEdge);
}

void fold_and_report(Turn& turn, Fold when) {
  State& state = turn.state;
  auto* running = turn.in<Running>();
  for (auto& [node, samples] : state.samples) samples.age_ms = ms(turn.at - samples.taken_at);
  wire::Beat folded =
      fold_beat(state.attempt, state.samples, running != nullptr ? ms(turn.at - running->since) : 0,
                ms(turn.at - state.awake_at));
  const bool edge = running != nullptr && running->phase != folded.phase;
  if (when == Fold::OnEdge && !edge) return;
  if (edge) {
    running->phase = folded.phase;
    turn.report(wire::PhaseEdge{state.attempt, folded.phase, folded.iteration_max});
  }
  for (auto& [node, samples] : state.samples)
    for (wire::RankSample& sample : samples.ranks) {
      sample.completed = 0;
      sample.losses = {};
    }
  if (running != nullptr)
    running->slowest_iteration_ms =
        std::max(running->slowest_iteration_ms, folded.iteration_ms.max);
  state.beat = folded;
  turn.report(std::move(folded));
}

// A rank without progress for long cannot save on TERM: waiting for it only costs time.
bool looks_hung(const State& state, const Running& running) {
  const double limit = std::max(kHungFloorMs, kHungFactor * running.slowest_iteration_ms);
  return state.beat.phase == wire::Phase::Iteration &&
         static_cast<double>(state.beat.progress_age_ms) > limit;
}

}  // namespace stoker::lead
