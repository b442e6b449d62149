// The last rung, and the good end: hold for an operator, or finish.
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/handlers.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"

namespace stoker::core {

void hold(Turn& turn, const Hold& hold) {
  RunState& run = turn.r();
  training::Held held;
  held.alert_kind = hold.kind.text();
  if (hold.retry)
    held.retry_at = turn.now() + *hold.retry;
  else
    cancel_waiting(turn);  // in front of the word to leave
  turn.go(held, Trigger::Holds,
          fmt::format("{}; held: {}", hold.evidence,
                      hold.retry ? fmt::format("next try in {}", format_duration(*hold.retry))
                                 : "nothing is submitted until `stoker resume`"));
  run.save.reset();
  run.planned_stop.reset();
  if (!hold.retry) {
    if (run.live && !run.live->goodbye_at && has_agents(run.policy)) {
      run.control.level = wire::Level::LeaveNow;
      write_control(turn, hold.evidence);
    } else {
      cancel_task(turn);
    }
  }
  raise(turn,
        {Severity::Critical, hold.kind,
         fmt::format("{} is held: {}", turn.name().text, hold.evidence),
         command_text(turn.name(), "resume",
                      hold.advice.empty()
                          ? ""
                          : fmt::format("--reason \"...\"   # first: {}", hold.advice).c_str()),
         ""});
}

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

}  // namespace stoker::core
