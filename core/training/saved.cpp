// Checkpoints, as the agents report them: saved (what is remembered of it, and who has waited for
// it), not saved, found damaged, and held against what a resumed training has.
#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/followers/followers.hpp"
#include "core/handlers.hpp"
#include "core/nodes/accuse.hpp"
#include "core/recover/rollback.hpp"
#include "core/sentence.hpp"
#include "core/signals/training_health.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core {
namespace {

std::string store_of(const RunPolicy& policy) {
  const std::string& folder = policy.checkpoints.directory;
  return folder.starts_with('/') ? folder : policy.directory + "/" + folder;
}

}  // namespace

void on_saved(Turn& turn, const wire::CheckpointSaved& e) {
  RunState& run = turn.r();
  CheckpointFacts& facts = run.health.checkpoint;
  if (facts.iteration.value != 0 && e.iteration > facts.iteration)
    facts.intervals.add(turn.now() - facts.at);
  facts.iteration = e.iteration;
  facts.at = turn.now();
  facts.wall = turn.event.wall;
  facts.name = e.checkpoint;
  if (e.seconds > 0 && e.seconds < 86400) {  // a quick save may leave no edge of its phase
    facts.longest_seconds = std::max(facts.longest_seconds, e.seconds);
    run.health.phases[std::string(stoker::name_of(wire::Phase::Checkpoint))].durations.add(
        from_seconds(e.seconds));
  }
  facts.known[e.iteration.value] = run.live->generation;
  if (facts.known.size() > 256) facts.known.erase(facts.known.begin());
  note_saved(turn, e.iteration);
  turn.say(fmt::format("checkpoint of iteration {} saved in {:.1f}s ({:.1f} MiB)",
                       e.iteration.value, e.seconds, static_cast<double>(e.bytes) / (1 << 20)));
  resolve(turn, "save_failed");
  resolve(turn, "save_overdue");
  resolve(turn, "checkpoint_damaged");  // there is a newer one
  end_parole(turn);
  followers::take_up(turn, e.iteration, run.live->generation, e.checkpoint);
  if (run.asked.exact_order && run.live->order == *run.asked.exact_order) {
    turn.say("the rollback is complete: later starts use the newest checkpoint again");
    run.asked.exact_order.reset();
    supply::write_orders(turn, wire::Resume{});
    supply::top_up(turn);
  }
  if (run.asked.save && run.asked.save->taken) {
    turn.say(fmt::format("as {} asked", run.asked.save->by));
    run.asked.save.reset();
    resolve(turn, "save_unanswered");
  }
  if (run.asked.planned_stop && run.asked.planned_stop->after_checkpoint) {
    const PlannedStop planned = *run.asked.planned_stop;
    stop_now(turn, wire::Level::LeaveNow, planned.by,
             fmt::format("stopping after the checkpoint, as {} asked", planned.by));
  }
  if (!run.policy.after.empty()) supply::follow_pins(turn);
}

void on_save_failed(Turn& turn, const wire::SaveFailed& e) {
  turn.say(
      fmt::format("saving the checkpoint of iteration {} failed: {}", e.iteration.value, e.why));
  raise(turn, {Severity::Critical, "save_failed",
               fmt::format("{} cannot save: {}", turn.name().text, e.why),
               "df -h " + store_of(turn.r().policy), ""});
}

void on_damaged_checkpoint(Turn& turn, const wire::DamagedCheckpoint& e) {
  turn.say(fmt::format("the checkpoint {} is damaged ({}); no start uses it", e.checkpoint, e.why));
  if (const auto id = wire::parse_checkpoint_name(e.checkpoint))
    forget_saved(turn.r(), id->iteration);
  raise(turn, {Severity::Warning, "checkpoint_damaged",
               fmt::format("checkpoint {} of {} is damaged", e.checkpoint, turn.name().text),
               fmt::format("stoker-train inspect {}/{} --verify", store_of(turn.r().policy),
                           e.checkpoint),
               e.checkpoint});
  if (const auto id = wire::parse_checkpoint_name(e.checkpoint))
    heed_lost_target(turn, *id, "found damaged");
}

void on_resume_audit(Turn& turn, const wire::ResumeAudit& e) {
  RunState& run = turn.r();
  std::string text;
  for (const auto& item : e.items)
    if (!item.equal)
      text += fmt::format("{}{} was {}, is {}", text.empty() ? "" : ", ", item.what, item.saved,
                          item.now);
  turn.say(fmt::format("resume audit of {} at iteration {}: {}{}", e.checkpoint, e.iteration.value,
                       e.passed ? "passed" : "failed: " + text,
                       e.guarantee.empty() ? "" : fmt::format(" ({})", e.guarantee)));
  // The ranks could not take the snapshot that their lead had chosen.
  if (e.passed && run.live && e.iteration < run.live->loaded &&
      run.health.progress.iteration == run.live->loaded)
    run.live->loaded = run.health.progress.iteration = e.iteration;
  if (e.passed) return;
  text = fmt::format("{} did not resume with the values that it saved: {}", turn.name().text, text);
  raise(turn, {Severity::Critical, "resume_audit", text, command_text(turn.name(), "events"), ""});
}

}  // namespace stoker::core
