#include "core/recover/end.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "core/alerts/alerting.hpp"
#include "core/handlers.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"

namespace stoker::core {

std::uint64_t last_iteration(const RunState& run) {
  return run.policy.train.finished.iteration.value_or(run.health.progress.total);
}

std::string sign_of_end(const RunState& run) {
  if (!run.live) return "";
  const std::string of = fmt::format("generation {}: ", run.live->generation.value);
  if (run.live->goodbye_at) return of + "its agents left";
  if (run.jobs.end) return of + run.jobs.end->why;
  if (has_agents(run.policy)) return "";
  const std::uint64_t last = last_iteration(run), at = run.health.progress.iteration.value;
  if (last != 0 && at >= last)
    return of + fmt::format("iteration {} of {}, checkpoint {}", at, last,
                            run.health.checkpoint.iteration.value);
  if (!run.recovery.verdict || !run.recovery.verdict->fatal) return "";
  return of + run.recovery.verdict->failure_class + ": " + run.recovery.verdict->summary;
}

bool is_near_end(const RunState& run) {
  // A digest may be 30 s old, and a busy controller needs some for a cancel.
  constexpr double kCancelNeedsMs = 60e3;
  constexpr std::uint64_t kShare = 20;  // a twentieth of a short training
  const std::uint64_t last = last_iteration(run), at = run.health.progress.iteration.value;
  if (!run.live || last == 0 || at > last || !run.policy.train.finished.file.empty()) return false;
  const std::uint64_t left = last - at;
  if (left == 0) return true;
  const double step_ms = run.health.progress.step_ms;
  return left <= last / kShare && step_ms > 0 &&
         static_cast<double>(left) * step_ms <= kCancelNeedsMs;
}

void cancel_unneeded(Turn& turn) {
  const RunState& run = turn.r();
  if (!is_near_end(run) || run.asked.paused) return;
  std::uint32_t waiting = 0;
  for (const auto& [token, s] : run.jobs.supply) waiting += s.waiting();
  if (waiting == 0) return;
  turn.say(fmt::format("iteration {} of {}: {} that {} would start for nothing; cancelling {}",
                       run.health.progress.iteration.value, last_iteration(run),
                       count_text(waiting, "task"), waiting == 1 ? "waits" : "wait",
                       waiting == 1 ? "it" : "them"));
  cancel_waiting(turn);
}

bool is_over(const TrainingState& state) {
  const auto* held = std::get_if<training::Held>(&state);
  return (held != nullptr && !held->retry_at) ||
         std::holds_alternative<training::Finished>(state) ||
         std::holds_alternative<training::Stopped>(state);
}

void halt(Turn& turn, const std::string& why) {
  RunState& run = turn.r();
  run.asked.control.halt =
      fmt::format("the run is {}{}{}", state_name(run.training), why.empty() ? "" : ": ", why);
  run.asked.control.halt_order = run.asked.order;
  write_run_control(turn, run.asked.control.halt);
}

void lift_end(Turn& turn, Generation through) {
  RunState& run = turn.r();
  run.asked.control.halt.clear();
  run.asked.control.lifts = std::max(run.asked.control.lifts, through);
  run.jobs.end.reset();
  write_run_control(turn, "an operator resumed the run");
}

bool heed_end(Turn& turn, const wire::EndMark& end) {
  RunState& run = turn.r();
  const std::string sentence = fmt::format("generation {}: {}", end.generation.value, end.why);
  // A person resumed the run while this generation was leaving, and it reached its end all the
  // same.
  const bool reached =
      end.kind == wire::End::Finished && run.live && run.live->generation == end.generation;
  if ((end.generation <= run.asked.control.lifts && !reached) || end.generation < run.newest) {
    turn.say(fmt::format("{}; that end mark is cleared or outdated", sentence));
    return false;
  }
  run.newest = end.generation;
  run.jobs.end.reset();
  if (turn.kind() == TrainingKind::Finished) return true;
  run.health.progress.iteration = std::max(run.health.progress.iteration, end.iteration);
  if (end.kind == wire::End::Finished) {
    finish(turn, end.why);
    return true;
  }
  if (turn.kind() == TrainingKind::Stopped) return true;
  cancel_waiting(turn);
  turn.go(training::Stopped{end.by.empty() ? "the training" : end.by}, Trigger::Stops, sentence);
  run.recovery.incident.reset();
  run.asked.save.reset();
  run.asked.planned_stop.reset();
  resolve_failures(turn);
  if (end.by.empty()) return true;  // as planned
  raise(turn, {Severity::Warning, "stopped_by_agents",
               fmt::format("{} is stopped: {}", turn.name().text, end.why),
               command_text(turn.name(), "resume", "--reason \"...\""), ""});
  return true;
}

bool heed_known_end(Turn& turn) {
  const auto end = std::exchange(turn.r().jobs.end, std::nullopt);
  return end && end->generation >= turn.r().newest && heed_end(turn, *end);
}

void on_end_seen(Turn& turn, const EndSeen& seen) {
  RunState& run = turn.r();
  const std::string name = wire::generation_name(seen.mark.generation);
  if (!seen.refused.empty()) {
    turn.say(fmt::format("{}/{} does not count: {}", name, wire::kEndName, seen.refused));
    return raise(turn, {Severity::Warning, "end_refused",
                        fmt::format("the end mark of {} of {} does not count: {}", name,
                                    turn.name().text, seen.refused),
                        fmt::format("ls -l {}/{}", turn.r().policy.directory, name), name});
  }
  const bool leaving = turn.active() && run.live && !run.live->goodbye_at &&
                       run.live->generation == seen.mark.generation;
  if (!leaving) {
    heed_end(turn, seen.mark);
    return;
  }
  run.jobs.end = seen.mark;  // its last reports are on their way, or its job ends without them
}

}  // namespace stoker::core
