// Progress: digests of the heartbeats, the hang detector on them, and the lead agent's silence.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/handlers.hpp"
#include "core/recover/end.hpp"
#include "core/recover/recover.hpp"
#include "core/recover/resumed.hpp"
#include "core/sentence.hpp"
#include "core/signals/detect.hpp"
#include "core/signals/probe.hpp"
#include "core/signals/training_health.hpp"
#include "core/supply/command.hpp"
#include "core/supply/script.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core {
namespace {

void remember_loss(RunState& run, std::uint64_t iteration, double loss) {
  if (!run.losses.empty()) {
    while (!run.losses.empty() && run.losses.back().iteration >= iteration)
      run.losses.pop_back();  // a restart went back: the curve is the surviving history
    if (!run.losses.empty() && iteration < run.losses.back().iteration + run.loss_stride) return;
  }
  run.losses.push_back({iteration, loss});
  if (run.losses.size() <= kLossPoints) return;
  std::vector<LossPoint> thinner;
  for (std::size_t i = run.losses.size() % 2 == 0 ? 1 : 0; i < run.losses.size(); i += 2)
    thinner.push_back(run.losses[i]);
  const std::uint64_t span = thinner.back().iteration - thinner.front().iteration;
  run.loss_stride = std::max<std::uint64_t>(1, span / thinner.size());
  run.losses = std::move(thinner);
}

double finite(double value) {
  return std::isfinite(value) ? value : 0;
}

void fold(Turn& turn, const Digest& digest, const signals::Hang& hang) {
  RunState& run = turn.r();
  const wire::Beat& beat = digest.last;
  Progress& p = run.progress;
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
  if (p.iteration > before) run.accepted.clear();
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

void double_limit(Turn& turn, PhaseFacts& facts) {
  facts.factor = std::min(signals::kLargestFactor, facts.factor * 2);
  facts.factor_needed = turn.now();
}

// A doubled limit is halved after each day in which nothing would have hit it.
void ease_limits(Turn& turn) {
  constexpr Duration kUnneeded = 24h;
  RunState& run = turn.r();
  for (auto& [name, facts] : run.phases) {
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
  if (run.progress.iteration <= run.live->loaded) return;
  if (run.progress.iteration > run.budget.best) {
    for (auto& [phase, facts] : run.phases) facts.hits = 0;
    resolve(turn, "hang_limit");
    ease_limits(turn);
  }
  count_progress(run, run.progress.iteration, turn.now());
  enter_training(turn);
}

void suspect_hang(Turn& turn, const signals::Hang& hang) {
  RunState& run = turn.r();
  PhaseFacts& facts = run.phases[std::string(stoker::name_of(hang.phase))];
  ++facts.hits;
  note_incident(turn, "hang");
  training::Suspect next;
  next.symptom = training::Symptom::Hang;
  next.evidence = hang.evidence;
  next.nodes = hang.nodes;
  next.iterating = turn.in<training::Training>() != nullptr;
  next.stacks = ++run.control.stacks;
  const Duration bound = has_agents(run.policy)
                             ? std::clamp<Duration>(run.policy.hang.floor / 4, 1s, 30s)
                             : probe::kAnswerWithin;
  run.live->probes = 0;
  next.act_at = turn.now() + bound;
  turn.go(next, Trigger::Silence,
          fmt::format("{}; collecting stacks for at most {} before acting", hang.evidence,
                      format_duration(bound)));
  if (facts.hits >= 2) {
    facts.hits = 0;
    double_limit(turn, facts);
    turn.say(fmt::format("this limit was hit twice in a row without progress; it is doubled to {}",
                         format_duration(signals::phase_deadline(run, hang.phase))));
    raise(turn, {Severity::Critical, "hang_limit",
                 fmt::format("{} hit the limit of phase {} twice in a row without progress",
                             turn.name().text, stoker::name_of(hang.phase)),
                 command_text(turn.name(), "stacks"), ""});
  }
  if (!has_agents(run.policy)) return probe::ask(turn);
  write_control(turn, hang.evidence);
}

// The budget of false alarms is one a day and phase: the second doubles the phase's limit.
void note_false_alarm(Turn& turn, wire::Phase phase) {
  constexpr Duration kBudgetOf = 24h;
  PhaseFacts& facts = turn.r().phases[std::string(stoker::name_of(phase))];
  if (facts.false_alarms == 0 || facts.false_since + kBudgetOf <= turn.now()) {
    facts.false_since = turn.now();
    facts.false_alarms = 0;
  }
  if (++facts.false_alarms < 2) return;
  facts.false_alarms = 0;
  double_limit(turn, facts);
  turn.say(fmt::format(
      "the second false alarm in phase {} within a day: its limit is doubled to {}",
      stoker::name_of(phase), format_duration(signals::phase_deadline(turn.r(), phase))));
}

// An incident that began with the suspicion is dropped; one that began before it continues.
void drop_suspicion(Turn& turn, const training::Suspect& suspect, const std::string& sentence) {
  RunState& run = turn.r();
  if (run.incident && run.incident->since >= run.since) run.incident.reset();
  if (suspect.iterating)
    turn.go(training::Training{}, Trigger::Moves, sentence);
  else
    turn.go(training::Starting{turn.now()}, Trigger::Moves, sentence);
}

void check_planned(Turn& turn) {
  RunState& run = turn.r();
  if (run.save_at && run.progress.iteration >= *run.save_at) {
    run.save_at.reset();
    ask_save(
        turn, "an operator",
        fmt::format("iteration {} is reached: saving, as requested", run.progress.iteration.value));
  }
  if (!run.planned_stop || !run.planned_stop->at_iteration ||
      run.progress.iteration < *run.planned_stop->at_iteration)
    return;
  const PlannedStop planned = *run.planned_stop;
  stop_now(turn, wire::Level::SaveAndLeave, planned.by,
           fmt::format("iteration {} is reached: stopping, as {} asked",
                       planned.at_iteration->value, planned.by));
}

}  // namespace

void note_length(Turn& turn, wire::Phase phase, Duration longest) {
  const auto found = turn.r().phases.find(std::string(stoker::name_of(phase)));
  if (found != turn.r().phases.end() && found->second.factor > 1 &&
      longest > signals::undoubled_deadline(turn.r(), phase))
    found->second.factor_needed = turn.now();
}

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

namespace {

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
}

// The output of a foreign training, or its checkpoint folder, shows a checkpoint: of one that
// this attempt saved, since it had reached it and had not begun there.
void note_logged_checkpoint(Turn& turn, const wire::Beat& beat) {
  RunState& run = turn.r();
  CheckpointFacts& facts = run.checkpoint;
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
}

}  // namespace

void on_digest(Turn& turn, const Digest& digest) {
  RunState& run = turn.r();
  run.daemon_away = false;
  if (!run.live && !has_agents(run.policy)) return script::on_late_progress(turn, digest);
  supply::hear_after_the_end(turn, digest);
  if (!run.live || run.live->generation != digest.generation) return;
  if (digest.last.attempt != run.live->attempt || run.live->outcome) return;
  note_resumed(turn, digest);
  if (digest.iteration_ms.count > 0) {
    run.phases[std::string(stoker::name_of(wire::Phase::Iteration))].durations.add(
        digest.iteration_ms);
    note_length(turn, wire::Phase::Iteration,
                from_seconds(std::clamp(finite(digest.iteration_ms.max), 0.0, 1e9) / 1e3));
    run.progress.step_ms = finite(digest.iteration_ms.p50);
  }
  const signals::Hang hang = signals::detect_hang(run, digest.last);
  fold(turn, digest, hang);
  if (run.save && run.save->taken && digest.last.saves_answered >= run.save->counter)
    run.save.reset();
  note_advance(turn);
  note_logged_checkpoint(turn, digest.last);
  if (const auto* suspect = turn.in<training::Suspect>();
      suspect != nullptr && suspect->symptom == training::Symptom::Hang &&
      hang.verdict == signals::Verdict::Ok && hang.age < turn.now() - run.since) {
    const std::string sentence =
        fmt::format("progress resumed {} ago (limit {}): no longer suspect",
                    format_duration(hang.age), format_duration(hang.deadline));
    drop_suspicion(turn, *suspect, sentence);
    resolve(turn, "hang");
    note_false_alarm(turn, hang.phase);
  }
  const bool watched =
      turn.kind() == TrainingKind::Training || turn.kind() == TrainingKind::Starting;
  if (watched && hang.verdict == signals::Verdict::Bad) return suspect_hang(turn, hang);
  if (watched) check_planned(turn);
  if (watched) cancel_unneeded(turn);
  if (watched) supply::follow_plan(turn);
  watch_numbers(turn, digest);
  supply::follow_pins(turn);
  supply::follow_search(turn);
}

void act_on_suspicion(Turn& turn) {
  const training::Suspect suspect = *turn.in<training::Suspect>();
  RunState& run = turn.r();
  Failure failure;
  failure.evidence = suspect.evidence;
  if (suspect.symptom == training::Symptom::Hang) {
    failure.kind = "hang";
    failure.nodes = suspect.nodes;
    failure.strong = true;
    return recover(turn, failure);
  }
  failure.kind = "agents_silent";
  failure.inside = false;
  const supply::Submission* s = running_submission(run);
  failure.evidence =
      fmt::format("{}, while the scheduler still has {}", suspect.evidence,
                  s == nullptr ? "its job" : job_text({s->job.job, running_task(*s)}));
  recover(turn, failure);
}

void on_lead_silent(Turn& turn, const LeadSilent& silent) {
  RunState& run = turn.r();
  if (!run.live || run.live->generation != silent.generation || run.live->goodbye_at) return;
  run.live->lead_silent = true;
  if (turn.kind() != TrainingKind::Training && turn.kind() != TrainingKind::Starting) return;
  note_incident(turn, "agents_silent");
  run.live->probes = 0;
  training::Suspect next;
  next.symptom = training::Symptom::LeadSilent;
  next.iterating = turn.kind() == TrainingKind::Training;
  const Duration patience = signals::lead_patience(run.policy.hang);
  next.act_at = turn.now() + std::max<Duration>(1s, patience - silent.age);
  next.evidence =
      fmt::format("the lead agent of generation {} has been silent for {} {}",
                  silent.generation.value, format_duration(silent.age), where_text(run));
  turn.go(next, Trigger::Silence,
          run.no_room_since
              ? fmt::format(
                    "{}; its disk is full, so the silence does not count until there is free space",
                    next.evidence)
              : fmt::format("{}; it may be a slow file system, waiting until {} of silence",
                            next.evidence, format_duration(patience)));
}

void on_lead_speaks(Turn& turn, const LeadSpeaks& speaks) {
  RunState& run = turn.r();
  if (!run.live || run.live->generation != speaks.generation) return;
  run.live->lead_silent = false;
  const auto* suspect = turn.in<training::Suspect>();
  if (suspect == nullptr || suspect->symptom != training::Symptom::LeadSilent) return;
  drop_suspicion(turn, *suspect,
                 fmt::format("the lead agent reports again after {}",
                             format_duration(turn.now() - run.since)));
}

}  // namespace stoker::core
