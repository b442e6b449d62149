// Progress: digests of the heartbeats, and the detectors on them.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/followers/followers.hpp"
#include "core/handlers.hpp"
#include "core/recover/recover.hpp"
#include "core/recover/resumed.hpp"
#include "core/signals/detect.hpp"
#include "core/signals/training_health.hpp"
#include "core/supply/script.hpp"
#include "core/supply/supply.hpp"
#include "core/supply/suspended.hpp"
#include "core/training/reactions.hpp"

namespace stoker::core {
namespace {

void remember_loss(RunState& run, std::uint64_t iteration, double loss) {
  if (!run.health.losses.empty()) {
    while (!run.health.losses.empty() && run.health.losses.back().iteration >= iteration)
      run.health.losses.pop_back();  // a restart went back: the curve is the surviving history
    if (!run.health.losses.empty() &&
        iteration < run.health.losses.back().iteration + run.health.loss_stride)
      return;
  }
  run.health.losses.push_back({iteration, loss});
  if (run.health.losses.size() <= kLossPoints) return;
  std::vector<LossPoint> thinner;
  for (std::size_t i = run.health.losses.size() % 2 == 0 ? 1 : 0; i < run.health.losses.size();
       i += 2)
    thinner.push_back(run.health.losses[i]);
  const std::uint64_t span = thinner.back().iteration - thinner.front().iteration;
  run.health.loss_stride = std::max<std::uint64_t>(1, span / thinner.size());
  run.health.losses = std::move(thinner);
}

double finite(double value) {
  return std::isfinite(value) ? value : 0;
}

void fold(Turn& turn, const Digest& digest, const signals::Hang& hang) {
  RunState& run = turn.r();
  const wire::Beat& beat = digest.last;
  Progress& p = run.health.progress;
  const auto ago = [&](std::int64_t ms) {
    return turn.now() - std::chrono::milliseconds(std::clamp<std::int64_t>(ms, 0, 1'000'000'000));
  };
  p.at = turn.now();
  p.phase = beat.phase;
  p.phase_since = ago(beat.phase_age_ms);
  p.oldest = turn.now() - hang.age;
  p.newest = ago(beat.newest_progress_age_ms);
  const Iteration before = p.iteration;
  p.iteration = std::max(run.live->loaded, beat.iteration_max);
  if (p.iteration > before) run.jobs.accepted.clear();
  p.slowest = beat.iteration_min;
  if (beat.total != 0) p.total = beat.total;
  if (beat.consumed_samples != 0) p.samples = beat.consumed_samples;  // 0: not loaded yet
  if (beat.consumed_tokens != 0) p.tokens = beat.consumed_tokens;
  p.learning_rate = finite(beat.learning_rate);
  p.gradient_norm = finite(beat.gradient_norm);
  p.tflops = finite(beat.tflops);
  p.gpu_watts = finite(beat.gpu_watts);
  p.deadline = hang.deadline;
  if (beat.loss && std::isfinite(*beat.loss)) {
    p.loss = beat.loss;
    remember_loss(run, beat.iteration_max.value, *beat.loss);
  }
}

// The first digest with iterations of a training that chose its checkpoint by itself.
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

// A doubled limit is halved after each day in which nothing would have hit it.
void ease_limits(Turn& turn) {
  constexpr Duration kUnneeded = 24h;
  RunState& run = turn.r();
  for (auto& [name, facts] : run.health.phases) {
    const auto phase = enum_from<wire::Phase>(name);
    if (!phase || facts.factor <= 1 || turn.now() - facts.factor_needed < kUnneeded) continue;
    facts.factor /= 2;
    facts.factor_needed = turn.now();
    turn.say(fmt::format("phase {} did not need its doubled limit for {}; the limit is {} again",
                         name, format_duration(kUnneeded),
                         format_duration(signals::phase_deadline(run, *phase))));
  }
}

void note_advance(Turn& turn) {
  RunState& run = turn.r();
  if (run.health.progress.iteration <= run.live->loaded) return;
  if (run.health.progress.iteration > run.recovery.budget.best) {
    for (auto& [phase, facts] : run.health.phases) facts.hits = 0;
    resolve(turn, "hang_limit");
    ease_limits(turn);
  }
  count_progress(run, run.health.progress.iteration, turn.now());
  training::reactions_of(run).iterates(turn);
}

// The output of a foreign training, or its checkpoint folder, shows a checkpoint: of one that
// this attempt saved, since it had reached it and had not begun there.
void note_logged_checkpoint(Turn& turn, const wire::Beat& beat) {
  RunState& run = turn.r();
  CheckpointFacts& facts = run.health.checkpoint;
  const Iteration saved = beat.checkpoint;
  if (!is_foreign(run.policy) || saved <= run.live->loaded || saved > beat.iteration_max ||
      saved == facts.iteration)
    return;
  if (facts.iteration.value != 0 && saved > facts.iteration)
    facts.intervals.add(turn.now() - facts.at);
  facts.iteration = saved;
  facts.at = turn.now();
  facts.wall = turn.event.wall;
  facts.name.clear();
  turn.say(fmt::format("its log says that the checkpoint of iteration {} is saved", saved.value));
  resolve(turn, "save_overdue");
  followers::take_up(turn, saved, run.live->generation, "");
}

// Since the scheduler last suspended the job, or its file system hung. Agents leave the first time
// out themselves, as soon as they go on: the scheduler's answer comes later.
Duration awake_for(const Turn& turn) {
  const RunState& run = turn.r();
  if (run.conditions.unread_since) return 0s;  // it has just answered
  const auto& read_again = run.conditions.read_again_at;
  const Duration read_for = read_again ? turn.now() - *read_again : Duration::max();
  if (has_agents(run.policy)) return read_for;
  return supply::is_suspended(run) ? 0s
                                   : std::min(read_for, turn.now() - run.conditions.resumed_at);
}

}  // namespace

void note_length(Turn& turn, wire::Phase phase, Duration longest) {
  const auto found = turn.r().health.phases.find(std::string(stoker::name_of(phase)));
  if (found != turn.r().health.phases.end() && found->second.factor > 1 &&
      longest > signals::undoubled_deadline(turn.r(), phase))
    found->second.factor_needed = turn.now();
}

void on_digest(Turn& turn, const Digest& digest) {
  RunState& run = turn.r();
  run.conditions.daemon_away = false;
  if (!run.live && !has_agents(run.policy)) return script::on_late_progress(turn, digest);
  supply::hear_after_the_end(turn, digest);
  if (!run.live || run.live->generation != digest.generation) return;
  if (digest.last.attempt != run.live->attempt || run.live->outcome) return;
  note_resumed(turn, digest);
  if (digest.iteration_ms.count > 0) {
    run.health.phases[std::string(stoker::name_of(wire::Phase::Iteration))].durations.add(
        digest.iteration_ms);
    note_length(turn, wire::Phase::Iteration,
                from_seconds(std::clamp(finite(digest.iteration_ms.max), 0.0, 1e9) / 1e3));
    run.health.progress.step_ms = finite(digest.iteration_ms.p50);
  }
  const signals::Hang hang = signals::detect_hang(run, digest.last, awake_for(turn));
  fold(turn, digest, hang);
  if (run.asked.save && run.asked.save->taken &&
      digest.last.saves_answered >= run.asked.save->counter)
    run.asked.save.reset();
  note_advance(turn);
  note_logged_checkpoint(turn, digest.last);
  if (training::reactions_of(run).heartbeats(turn, hang)) return;
  watch_numbers(turn, digest);
  supply::follow_pins(turn);
  supply::follow_search(turn);
}

}  // namespace stoker::core
