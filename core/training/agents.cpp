// What agents say. A generation older than the newest is a late voice: noted, never obeyed.
#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/followers/followers.hpp"
#include "core/handlers.hpp"
#include "core/nodes/accuse.hpp"
#include "core/recover/end.hpp"
#include "core/recover/recover.hpp"
#include "core/recover/resumed.hpp"
#include "core/recover/rollback.hpp"
#include "core/sentence.hpp"
#include "core/signals/detect.hpp"
#include "core/signals/training_health.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core {
namespace {

bool task_is_over(const RunState& run, const wire::GenerationStarted& e) {
  const auto s = run.supply.find(e.token);
  if (s == run.supply.end()) return false;
  if (std::holds_alternative<supply::Ending>(s->second.state)) return false;
  const auto task = s->second.tasks.find(e.job.task);
  return task != s->second.tasks.end() && is_terminal(task->second.state);
}

// Says which files are not what the generation before had.
void note_digests(Turn& turn, const std::map<std::string, std::string>& digests) {
  if (digests.empty()) return;
  turn.r().trail.check.changed = false;
  for (const auto& [path, digest] : digests)
    if (const auto before = turn.r().digests.find(path);
        before != turn.r().digests.end() && before->second != digest) {
      turn.r().trail.check.changed = true;
      turn.say(fmt::format("{} has changed since the generation before (XXH3 {}, was {})", path,
                           digest.substr(0, 8), before->second.substr(0, 8)));
    }
  turn.r().digests = digests;
}

void on(Turn& turn, const wire::GenerationStarted& e) {
  RunState& run = turn.r();
  if (task_is_over(run, e))
    return turn.say(fmt::format("generation {} of {} reported only after its task was over",
                                e.generation.value, job_text(e.job)));
  // Its claim proves that its task runs, and so that the one before is over: agents are often heard
  // before the scheduler is asked again.
  supply::supersede(turn, e.token);
  supply::on_claimed(turn, e);
  LiveGeneration live;
  live.generation = e.generation;
  live.parent = e.parent;
  live.token = e.token;
  live.job = e.job;
  live.order = e.order;
  live.nodes = e.nodes;
  if (turn.site.ledger.since == Instant{}) turn.site.ledger.since = turn.now();
  turn.site.ledger.at_least =
      std::max(turn.site.ledger.at_least, static_cast<std::uint32_t>(e.nodes.size()));
  live.loaded = e.iteration;
  live.attempt_at = turn.now();
  run.live = live;
  run.over.reset();
  run.newest = std::max(run.newest, e.generation);
  run.control.level = wire::Level::Run;
  if (e.asked) {  // what was asked of a generation that is gone must not be asked of this one
    run.control.save = e.asked->save;
    run.control.stacks = e.asked->stacks;
    run.control.restart = e.asked->restart;
    run.save.reset();
  }
  run.control.exclude.clear();
  const bool had_known = !run.checkpoint.known.empty();
  std::erase_if(run.checkpoint.known,
                [&](const auto& known) { return known.first > e.iteration.value; });
  if (had_known)  // what is left of them is of this ancestry
    run.trail.saved =
        Iteration(run.checkpoint.known.empty() ? 0 : run.checkpoint.known.rbegin()->first);
  turn.say(fmt::format("generation {} of {} started on {}, {}", e.generation.value, job_text(e.job),
                       nodes_text(e.nodes),
                       e.iteration.value == 0
                           ? std::string("from scratch")
                           : fmt::format("resuming at iteration {}", e.iteration.value)));
  note_digests(turn, e.digests);
  if (turn.kind() == TrainingKind::Queued || (turn.kind() == TrainingKind::Idle && !run.paused)) {
    turn.go(training::Starting{turn.now()}, Trigger::JobRuns, "");
  } else if (auto* starting = turn.in<training::Starting>()) {
    starting->silent_since = turn.now();
  } else if (auto* stopping = turn.in<training::Stopping>()) {
    run.control.level = stopping->level;
  } else if (const auto* held = turn.in<training::Held>();
             !turn.active() && !(held != nullptr && held->retry_at)) {  // else it is the next try
    run.control.level = wire::Level::LeaveNow;
    turn.say(fmt::format("the run is {}: it must exit", state_name(run.training)));
  }
  write_control(turn, fmt::format("generation {} is known", e.generation.value));
  heed_older_orders(turn);
}

void on(Turn& turn, const wire::AgentJoined& e) {
  ++turn.r().live->joined;
  std::erase(turn.r().live->lost, e.node);
}

void on(Turn& turn, const wire::AgentLost& e) {
  RunState& run = turn.r();
  LiveGeneration& live = *run.live;
  if (std::find(live.lost.begin(), live.lost.end(), e.node) == live.lost.end())
    live.lost.push_back(e.node);
  const auto& used = live.attempt_nodes;
  const bool in_use = used.empty() || std::find(used.begin(), used.end(), e.node) != used.end();
  const std::string evidence =
      fmt::format("the agent on {} is gone ({}) {}", e.node.text, e.why, where_text(run));
  if (!in_use || !turn.active() || turn.in<training::Stopping>() != nullptr ||
      turn.in<training::Recovering>() != nullptr || live.goodbye_at)
    return turn.say(evidence);
  Failure failure;
  failure.kind = "node_fault";
  failure.evidence = evidence;
  failure.nodes = {e.node};
  failure.lost = {e.node};
  recover(turn, failure);
}

void on(Turn& turn, const wire::DamagedCheckpoint& e) {
  turn.say(fmt::format("the checkpoint {} is damaged ({}); the newest good one is used",
                       e.checkpoint, e.why));
  if (const auto id = wire::parse_checkpoint_name(e.checkpoint))
    forget_saved(turn.r(), id->iteration);
  raise(turn, {Severity::Warning, "checkpoint_damaged",
               fmt::format("checkpoint {} of {} is damaged", e.checkpoint, turn.name().text),
               fmt::format("stoker-train inspect {}/{}/{} --verify", turn.r().policy.directory,
                           turn.r().policy.checkpoints.directory, e.checkpoint),
               e.checkpoint});
  if (const auto id = wire::parse_checkpoint_name(e.checkpoint))
    heed_lost_target(turn, *id, "found damaged");
}

void on(Turn& turn, const wire::AttemptStarted& e) {
  RunState& run = turn.r();
  LiveGeneration& live = *run.live;
  live.attempt = e.attempt;
  live.attempt_nodes = e.nodes;
  live.world_size = e.world_size;
  live.loaded = e.iteration;
  live.attempt_at = turn.now();
  live.outcome.reset();
  // The agent repeats the whole sentence of the restart that it follows; the earlier decision has
  // it.
  const std::string why =
      e.why.starts_with("control restart") ? e.why.substr(0, e.why.find(':')) : e.why;
  const std::string sentence = fmt::format(
      "attempt {} of generation {} started: {} on {}{}{}{}", e.attempt.value, live.generation.value,
      count_text(e.world_size, "rank"), nodes_text(e.nodes),
      e.iteration.value == 0 ? "" : fmt::format(", from the checkpoint of {}", e.iteration.value),
      e.standby ? ", from standby processes" : "", why.empty() ? "" : fmt::format(" ({})", why));
  if (is_over(run.training)) return turn.say(sentence);  // what was reached stays on show
  if (!is_foreign(run.policy)) followers::leave_line(turn, e.iteration);
  run.verdict.reset();
  begin_numbers(turn, e.iteration);
  run.progress.phase = wire::Phase::Startup;
  run.progress.deadline = signals::phase_deadline(run, wire::Phase::Startup);
  run.progress.phase_since = turn.now();
  run.progress.iteration = e.iteration;
  if (e.iteration.value == 0) run.progress.samples = run.progress.tokens = 0;
  run.progress.slowest = e.iteration;
  run.progress.oldest = run.progress.newest = run.progress.at = turn.now();
  begin_parole(turn, e.nodes);
  if (turn.kind() == TrainingKind::Queued)
    turn.go(training::Starting{turn.now()}, Trigger::JobRuns, "");
  if (ignores(turn.kind(), Trigger::RanksStart)) return turn.say(sentence);
  turn.go(training::Starting{turn.now()}, Trigger::RanksStart, sentence);
}

void on(Turn& turn, const wire::RankExited& e) {
  RunState& run = turn.r();
  if (e.expected || e.attempt < run.live->attempt) return;
  if (!turn.active() || turn.in<training::Stopping>() != nullptr) return;
  on_rank_failed(turn, e);
}

void on(Turn& turn, const wire::AttemptEnded& e) {
  RunState& run = turn.r();
  if (e.attempt < run.live->attempt) return;
  const Outcome outcome{e.attempt, e.all_zero, e.worst_code, e.first_rank, e.first_node, e.told};
  if (e.end) {
    run.live->outcome = outcome;
    return heed_end(turn, *e.end);
  }
  const bool finished = classify(run, outcome) == EndKind::Finished;
  // Where the ranks were ordered to exit, their exit codes carry no news: only a finished training
  // does.
  const bool told = turn.in<training::Stopping>() != nullptr ||
                    turn.in<training::Recovering>() != nullptr ||
                    (!e.all_zero && e.worst_code == 0);
  if (!turn.active() || (told && !finished) || is_overtaken(turn)) {
    run.live->outcome = outcome;
    return;
  }
  on_attempt_ended(turn, outcome);
}

void on(Turn& turn, const wire::PhaseEdge& e) {
  RunState& run = turn.r();
  Progress& p = run.progress;
  if (e.attempt != run.live->attempt) return;  // of another attempt: its phase died with it
  if (e.phase != p.phase) {
    if (p.phase != wire::Phase::Iteration && p.phase_since != Instant{}) {
      const Duration took = turn.now() - p.phase_since;
      run.phases[std::string(stoker::name_of(p.phase))].durations.add(took);
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
  if (e.phase == wire::Phase::Iteration) enter_training(turn);
}

void on(Turn&, const wire::Beat&) {}  // folded into digests by watch/

void on(Turn& turn, const wire::CheckpointSaved& e) {
  on_saved(turn, e);
}

void on(Turn& turn, const wire::SaveFailed& e) {
  turn.say(
      fmt::format("saving the checkpoint of iteration {} failed: {}", e.iteration.value, e.why));
  raise(turn, {Severity::Critical, "save_failed",
               fmt::format("{} cannot save: {}", turn.name().text, e.why),
               fmt::format("df -h {}/{}", turn.r().policy.directory,
                           turn.r().policy.checkpoints.directory),
               ""});
}

void on(Turn& turn, const wire::ResumeAudit& e) {
  std::string text;
  for (const auto& item : e.items)
    if (!item.equal)
      text += fmt::format("{}{} was {}, is {}", text.empty() ? "" : ", ", item.what, item.saved,
                          item.now);
  turn.say(fmt::format("resume audit of {} at iteration {}: {}{}", e.checkpoint, e.iteration.value,
                       e.passed ? "passed" : "failed: " + text,
                       e.guarantee.empty() ? "" : fmt::format(" ({})", e.guarantee)));
  if (e.passed) return;
  text = fmt::format("{} did not resume with the values that it saved: {}", turn.name().text, text);
  raise(turn, {Severity::Critical, "resume_audit", text, command_text(turn.name(), "events"), ""});
}

void on(Turn& turn, const wire::NumbersDiffer& e) {
  on_numbers_differ(turn, e);
}

void on(Turn& turn, const wire::Acknowledged& e) {
  RunState& run = turn.r();
  if (e.what == "save" && run.save && e.value >= run.save->counter) {
    if (!e.detail.empty()) {
      turn.say(fmt::format("save request {} of {}: {}", e.value, run.save->by, e.detail));
      run.save.reset();
      return;
    }
    run.save->taken = true;
    turn.say(fmt::format("the agents acknowledged save request {}", e.value));
  }
}

void on(Turn& turn, const wire::StacksWritten& e) {
  std::string groups;
  if (e.groups == 1) groups = ": all ranks are at the same place";
  if (e.groups > 1) groups = fmt::format(": {} groups", e.groups);
  std::string odd;
  for (const wire::RankPlace& place : e.odd)
    odd +=
        fmt::format("{} rank {} on {}", odd.empty() ? "" : ",", place.rank.value, place.node.text);
  turn.say(fmt::format("stacks of {} are in {}{}{}", count_text(e.ranks, "rank"), e.directory,
                       groups, odd.empty() ? "" : "; at a different place than the others:" + odd));
  heed_stacks(turn, odd);
}

void on(Turn& turn, const wire::CheckpointsDeleted& e) {
  on_checkpoints_deleted(turn, e);
}

void on(Turn& turn, const wire::CheckpointArchived& e) {
  on_archived(turn, e);
}

void on(Turn& turn, const wire::ArchiveFailed& e) {
  on_archive_failed(turn, e);
}

void on(Turn& turn, const wire::HealthSources& e) {
  on_health_sources(turn, e);
}

void on(Turn& turn, const wire::NodesBenched& e) {
  on_nodes_benched(turn, e);
}

void on(Turn& turn, const wire::KernelLine& e) {
  on_kernel_line(turn, e);
}

void on(Turn& turn, const wire::Notice& e) {
  turn.say(e.node.empty() ? e.text : fmt::format("{}: {}", e.node.text, e.text));
}

void on(Turn& turn, const wire::ControlRefused& e) {
  on(turn, wire::Notice{e.node, e.text});
  if (e.stale)
    raise(turn,
          {Severity::Critical, "stale_daemon",
           fmt::format("the agents of {} follow a newer daemon than this one", turn.name().text),
           "stoker doctor", ""});
}

void on(Turn& turn, const wire::Goodbye& e) {
  RunState& run = turn.r();
  if (!e.lead) return turn.say(fmt::format("the agent on {} left ({})", e.node.text, e.why));
  run.live->goodbye_at = turn.now();
  run.live->goodbye_code = e.exit_code;
  turn.say(fmt::format("generation {} is over ({}), its lead exited with code {}",
                       run.live->generation.value, e.why, e.exit_code));
  if (e.end) heed_end(turn, *e.end);
  if (supply::Submission* s = running_submission(run);
      s != nullptr && std::holds_alternative<supply::Ending>(s->state))
    supply::decide_end(turn, *s);
}

}  // namespace

void on_agent_said(Turn& turn, const AgentSaid& said) {
  RunState& run = turn.r();
  run.daemon_away = false;
  const bool starts = std::holds_alternative<wire::GenerationStarted>(said.event.body);
  if (const auto* gone = std::get_if<wire::CheckpointsDeleted>(&said.event.body))
    return on(turn, *gone);  // gone is gone, from any source and at any time
  if (const auto* copied = std::get_if<wire::CheckpointArchived>(&said.event.body))
    return on_archived(turn, *copied);  // so is a copy
  if (said.generation < run.newest || (starts && said.generation == run.newest && run.live))
    return turn.say(
        fmt::format("generation {} reports late ({}); {} is the newest, so it is only "
                    "noted",
                    said.generation.value, kind_of_agent(said.event.body), run.newest.value));
  if (!starts && (!run.live || run.live->generation != said.generation)) {
    if (said.generation == run.newest && !run.live)
      return turn.say(fmt::format("last reports of generation {} after its task was over ({})",
                                  said.generation.value, kind_of_agent(said.event.body)));
    return turn.reject(fmt::format("generation {} reports ({}) before it reported its start",
                                   said.generation.value, kind_of_agent(said.event.body)));
  }
  std::visit([&](const auto& body) { on(turn, body); }, said.event.body);
}

}  // namespace stoker::core
