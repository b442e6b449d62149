// Finished: how a training reaches its end; and what is due when a run is over (finished, stopped
// or held for an operator) and a task of it still runs.
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/handlers.hpp"
#include "core/recover/end.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/timers.hpp"
#include "core/training/task_end.hpp"
#include "wire/time_limits.hpp"

namespace stoker::core {
void finish(Turn& turn, const std::string& sentence) {
  RunState& run = turn.r();
  cancel_waiting(turn);  // in front of the halt: its lead leaves when it sees that
  turn.go(training::Finished{run.progress.iteration}, Trigger::Completes, sentence);
  run.incident.reset();
  run.save.reset();
  run.planned_stop.reset();
  resolve_failures(turn);
  announce(turn, {Severity::Info, "finished",
                  fmt::format("{} finished at iteration {}", turn.name().text,
                              run.progress.iteration.value),
                  command_text(turn.name(), "chronicle"), ""});
}

bool finished_by_file(const RunState& run) {
  return run.finish_file && !run.policy.train.finished.file.empty();
}

void on_finish_file(Turn& turn, const FinishFileSeen& seen) {
  RunState& run = turn.r();
  run.finish_file = seen.there;
  if (!seen.there) return turn.say(fmt::format("{} is gone", seen.path));
  const std::string sentence = fmt::format("{} exists: the training is finished", seen.path);
  switch (turn.kind()) {
    case TrainingKind::Queued:
    case TrainingKind::Held:
    case TrainingKind::Stopped: return finish(turn, sentence);
    case TrainingKind::Idle:
    case TrainingKind::Finished: return turn.say(sentence);
    case TrainingKind::Starting:
    case TrainingKind::Training:
    case TrainingKind::Suspect:
    case TrainingKind::Stopping:
    case TrainingKind::Recovering:
      return turn.say(fmt::format("{}; waiting for the end of its ranks", sentence));
  }
}

namespace training {

void on_task_end(Turn& turn, const Idle&, const TaskEnd& end) {
  turn.say(end.sentence);
}
void on_task_end(Turn& turn, const Held&, const TaskEnd& end) {
  turn.say(end.sentence);
}
void on_task_end(Turn& turn, const Finished&, const TaskEnd& end) {
  turn.say(end.sentence);
}
void on_task_end(Turn& turn, const Stopped&, const TaskEnd& end) {
  turn.say(end.sentence);
}

std::optional<Instant> leftover_at(const SiteState&, const RunState& run) {
  if (!is_over(run.training) || running_submission(run) == nullptr) return std::nullopt;
  return run.leftover_at;
}

void cancel_leftover(Turn& turn) {
  RunState& run = turn.r();
  run.leftover_at = turn.now() + wire::kLeftOver;
  cancel_again(turn, fmt::format("the run is {} but its task is still there; cancelling it",
                                 state_name(run.training)));
}

}  // namespace training

}  // namespace stoker::core
