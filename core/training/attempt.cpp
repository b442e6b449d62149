// An attempt of the ranks: its start, the phases that they pass through, and their ends.
#include <fmt/format.h>

#include "core/followers/followers.hpp"
#include "core/handlers.hpp"
#include "core/nodes/accuse.hpp"
#include "core/recover/end.hpp"
#include "core/recover/recover.hpp"
#include "core/recover/resumed.hpp"
#include "core/sentence.hpp"
#include "core/signals/detect.hpp"
#include "core/signals/training_health.hpp"
#include "core/training/reactions.hpp"

namespace stoker::core {

void training::begin_attempt(Turn& turn, const wire::AttemptStarted& e) {
  RunState& run = turn.r();
  if (!is_foreign(run.policy)) followers::leave_line(turn, e.iteration);
  run.recovery.verdict.reset();
  begin_numbers(turn, e.iteration);
  run.health.progress.phase = wire::Phase::Startup;
  run.health.progress.deadline = signals::phase_deadline(run, wire::Phase::Startup);
  run.health.progress.phase_since = turn.now();
  run.health.progress.iteration = e.iteration;
  if (e.iteration.value == 0) run.health.progress.samples = run.health.progress.tokens = 0;
  run.health.progress.slowest = e.iteration;
  run.health.progress.oldest = run.health.progress.newest = run.health.progress.at = turn.now();
  begin_parole(turn, e.nodes);
}

namespace {

// Where its state comes from, and what is done once more.
std::string source_text(const RunState& run, const wire::AttemptStarted& e) {
  if (e.iteration.value == 0) return "";
  if (e.memory.empty()) return fmt::format(", from the checkpoint of {}", e.iteration.value);
  std::string text =
      fmt::format(", from memory of {}, iteration {}", nodes_text(e.memory), e.iteration.value);
  const std::uint64_t reached = run.health.progress.iteration.value;
  return reached > e.iteration.value
             ? fmt::format("{}; repeats {}", text,
                           count_text(reached - e.iteration.value, "iteration"))
             : text + "; repeats none";
}

}  // namespace

void on_attempt_started(Turn& turn, const wire::AttemptStarted& e) {
  RunState& run = turn.r();
  LiveGeneration& live = *run.live;
  live.attempt = e.attempt;
  live.attempt_nodes = e.nodes;
  live.world_size = e.world_size;
  live.loaded = e.iteration;
  live.attempt_at = turn.now();
  live.outcome.reset();
  // Of a restart the agent repeats the whole sentence; the decision before has it.
  const std::string why = e.restart != 0 ? fmt::format("control restart {}", e.restart) : e.why;
  const std::string sentence = fmt::format(
      "attempt {} of generation {} started: {} on {}{}{}{}", e.attempt.value, live.generation.value,
      count_text(e.world_size, "rank"), nodes_text(e.nodes), source_text(run, e),
      e.standby ? ", from standby processes" : "", why.empty() ? "" : fmt::format(" ({})", why));
  training::reactions_of(run).ranks_start(turn, e, sentence);
}

void on_rank_exited(Turn& turn, const wire::RankExited& e) {
  RunState& run = turn.r();
  if (e.expected || e.attempt < run.live->attempt) return;
  training::reactions_of(run).rank_exits(turn, e);
}

void on_attempt_over(Turn& turn, const wire::AttemptEnded& e) {
  RunState& run = turn.r();
  if (e.attempt < run.live->attempt) return;
  const Outcome outcome{e.attempt, e.all_zero, e.worst_code, e.first_rank, e.first_node, e.told};
  if (e.end) {
    run.live->outcome = outcome;
    heed_end(turn, *e.end);
    return;
  }
  training::reactions_of(run).attempt_ends(turn, outcome);
}

void on_phase_edge(Turn& turn, const wire::PhaseEdge& e) {
  RunState& run = turn.r();
  Progress& p = run.health.progress;
  if (e.attempt != run.live->attempt) return;  // of another attempt: its phase died with it
  if (e.phase != p.phase) {
    if (p.phase != wire::Phase::Iteration && p.phase_since != Instant{}) {
      const Duration took = turn.now() - p.phase_since;
      run.health.phases[std::string(stoker::name_of(p.phase))].durations.add(took);
      note_length(turn, p.phase, took);
    }
    p.phase = e.phase;
    p.phase_since = turn.now();
  }
  p.oldest = p.newest = turn.now();
  p.at = turn.now();
  p.deadline = signals::phase_deadline(run, e.phase);
  // Where it resumed is not known yet: the digest that follows has it (progress.cpp).
  if (e.iteration.value > 0 && run.live->loaded.value == 0 && is_foreign(run.policy)) return;
  if (e.iteration > p.iteration) p.iteration = e.iteration;
  if (e.phase == wire::Phase::Iteration) training::reactions_of(run).iterates(turn);
}

}  // namespace stoker::core
