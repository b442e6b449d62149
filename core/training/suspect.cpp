// Suspect: ranks that made no progress for longer than this run ever needed, or a lead agent
// without a word. The evidence is collected for a bounded time, then it is acted on, unless what
// was silent moves again.
#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/handlers.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/signals/detect.hpp"
#include "core/signals/probe.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"
#include "core/supply/suspended.hpp"
#include "core/timers.hpp"
#include "core/training/reactions.hpp"

namespace stoker::core {
namespace {

void double_limit(Turn& turn, PhaseFacts& facts) {
  facts.factor = std::min(signals::kLargestFactor, facts.factor * 2);
  facts.factor_needed = turn.now();
}

// The budget of false alarms is one a day and phase: the second doubles the phase's limit.
void note_false_alarm(Turn& turn, wire::Phase phase) {
  constexpr Duration kBudgetOf = 24h;
  PhaseFacts& facts = turn.r().health.phases[std::string(stoker::name_of(phase))];
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
  if (run.recovery.incident && run.recovery.incident->since >= run.since)
    run.recovery.incident.reset();
  if (suspect.iterating)
    turn.go(training::Training{}, Trigger::Moves, sentence);
  else
    turn.go(training::Starting{turn.now()}, Trigger::Moves, sentence);
}

}  // namespace

void on_stacks(Turn& turn, const wire::StacksWritten& e) {
  std::string groups;
  if (e.groups == 1) groups = ": all ranks are at the same place";
  if (e.groups > 1) groups = fmt::format(": {} groups", e.groups);
  std::string odd;
  for (const wire::RankPlace& place : e.odd)
    odd +=
        fmt::format("{} rank {} on {}", odd.empty() ? "" : ",", place.rank.value, place.node.text);
  turn.say(fmt::format("stacks of {} are in {}{}{}", count_text(e.ranks, "rank"), e.directory,
                       groups, odd.empty() ? "" : "; at a different place than the others:" + odd));
  auto* suspect = turn.in<training::Suspect>();
  if (suspect == nullptr || suspect->symptom != training::Symptom::Hang) return;
  if (!odd.empty()) suspect->evidence += fmt::format("; by stack,{} differs from the others", odd);
  act_on_suspicion(turn);
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
  if (supply::is_suspended(run)) return;
  training::reactions_of(run).lead_silent(turn, silent);
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

namespace training {
namespace {

// What was silent moves again, or does not.
bool watch_suspect(Turn& turn, const signals::Hang& hang) {
  const Suspect& suspect = *turn.in<Suspect>();
  if (suspect.symptom != Symptom::Hang || hang.verdict != signals::Verdict::Ok ||
      hang.age >= turn.now() - turn.r().since)
    return false;
  const std::string sentence =
      fmt::format("progress resumed {} ago (limit {}): no longer suspect",
                  format_duration(hang.age), format_duration(hang.deadline));
  drop_suspicion(turn, suspect, sentence);
  resolve(turn, "hang");
  note_false_alarm(turn, hang.phase);
  return watch_heartbeats(turn, hang);
}

void stop_suspect(Turn& turn, const StopAsked& asked) {
  StopAsked now = asked;
  const bool unheard = turn.in<Suspect>()->symptom == Symptom::LeadSilent &&
                       turn.r().conditions.is_cut_off();  // the ranks may be well
  if (asked.level == wire::Level::SaveAndLeave && !unheard) {
    now.level = wire::Level::LeaveNow;
    turn.say("the ranks do not respond, so they cannot save now");
  }
  stop_running(turn, now);
}

// The lead agent may have reported, or could not write.
void wait_for_lead(RunState& run, Instant now) {
  auto& suspect = std::get<Suspect>(run.training);
  if (suspect.symptom == Symptom::LeadSilent)
    suspect.act_at = now + signals::lead_patience(run.policy.hang);
}
void wait_for_lead_after(RunState& run, Instant now, Duration) {
  wait_for_lead(run, now);
}

}  // namespace

void suspect_hang(Turn& turn, const signals::Hang& hang) {
  RunState& run = turn.r();
  PhaseFacts& facts = run.health.phases[std::string(stoker::name_of(hang.phase))];
  ++facts.hits;
  note_incident(turn, "hang");
  Suspect next;
  next.symptom = Symptom::Hang;
  next.evidence = hang.evidence;
  next.nodes = hang.nodes;
  next.iterating = turn.in<Training>() != nullptr;
  next.stacks = ++run.asked.control.stacks;
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

void suspect_lead(Turn& turn, const LeadSilent& silent) {
  RunState& run = turn.r();
  note_incident(turn, "agents_silent");
  run.live->probes = 0;
  Suspect next;
  next.symptom = Symptom::LeadSilent;
  next.iterating = turn.kind() == TrainingKind::Training;
  const Duration patience = signals::lead_patience(run.policy.hang);
  next.act_at = turn.now() + std::max<Duration>(1s, patience - silent.age);
  const std::string how = silent.age > 0s
                              ? fmt::format("been silent for {}", format_duration(silent.age))
                              : "not reported since its job goes on";
  next.evidence = fmt::format("the lead agent of generation {} has {} {}", silent.generation.value,
                              how, where_text(run));
  turn.go(next, Trigger::Silence,
          run.conditions.no_room_since
              ? fmt::format(
                    "{}; its disk is full, so the silence does not count until there is free space",
                    next.evidence)
              : fmt::format("{}; it may be a slow file system, waiting until {} of silence",
                            next.evidence, format_duration(patience)));
}

void excuse_silence(Turn& turn, const std::string& why) {
  const auto* suspect = turn.in<Suspect>();
  if (suspect == nullptr) return;
  // Agents that report hung ranks are not suspended: the scheduler's answer is an old one.
  if (suspect->symptom == Symptom::Hang && has_agents(turn.r().policy)) return;
  drop_suspicion(turn, *suspect, fmt::format("{}: its silence is no sign of a failure", why));
}

void count_silence_again(Turn& turn) {
  const RunState& run = turn.r();
  auto* starting = turn.in<Starting>();
  if (starting != nullptr) starting->silent_since = turn.now();
  const bool watched = starting != nullptr || turn.in<Training>() != nullptr;
  if (watched && run.live && run.live->lead_silent && !run.live->goodbye_at)
    suspect_lead(turn, LeadSilent{run.live->generation, 0s});
}

std::optional<Instant> verdict_at(const SiteState&, const RunState& run) {
  const auto* suspect = std::get_if<Suspect>(&run.training);
  if (suspect == nullptr) return std::nullopt;
  return suspect->act_at;
}

void give_verdict(Turn& turn) {
  auto& suspect = *turn.in<Suspect>();
  const Conditions& conditions = turn.r().conditions;
  const bool silent = suspect.symptom == Symptom::LeadSilent;
  const bool unheard = silent && (turn.blind() || conditions.is_cut_off());
  const bool unread = conditions.unread_since && !has_agents(turn.r().policy);  // a script's logs
  if (unheard || unread) {
    suspect.act_at = turn.now() + kBlindRetry;  // unknown is not dead
    return;
  }
  const bool on_slurm = probe::is_wanted(turn.r().policy);
  if (on_slurm && suspect.symptom == Symptom::LeadSilent) return probe::on_silence_due(turn);
  if (on_slurm && !has_agents(turn.r().policy)) return probe::on_script_silence_due(turn);
  act_on_suspicion(turn);
}

const Reactions& reactions(const Suspect&) {
  static constexpr Reactions kSuspect{
      .task_runs = known_task,
      .task_ends = lose_task,
      .generation_starts = ignore,
      .ranks_start = begin_ranks,
      .iterates = ignore,
      .heartbeats = watch_suspect,
      .rank_exits = on_rank_failed,
      .attempt_ends = end_attempt,
      .agent_lost = recover,
      .lead_silent = ignore,
      .stop = stop_suspect,
      .resume = resume_running,
      .added_again = keep_until_next_start,
      .finish_file = wait_for_ranks,
      .daemon_back = wait_for_lead_after,
      .room_again = wait_for_lead,
  };
  return kSuspect;
}

}  // namespace training

}  // namespace stoker::core
