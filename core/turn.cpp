// Turn: the one place where states change.
#include "core/turn.hpp"

#include <fmt/format.h>

#include "common/check.hpp"
#include "core/recover/end.hpp"
#include "wire/time_limits.hpp"

namespace stoker::core {

RunState& Turn::r() const {
  STOKER_CHECK(run != nullptr, "a handler of runs was called for a site event");
  return *run;
}

bool Turn::active() const {
  switch (kind()) {
    case TrainingKind::Starting:
    case TrainingKind::Training:
    case TrainingKind::Suspect:
    case TrainingKind::Stopping:
    case TrainingKind::Recovering: return true;
    case TrainingKind::Idle:
    case TrainingKind::Queued:
    case TrainingKind::Held:
    case TrainingKind::Finished:
    case TrainingKind::Stopped: return false;
  }
  return false;
}

void Turn::say(const std::string& sentence) {
  if (sentence.empty()) return;
  if (!decision.reason.empty()) decision.reason += "; ";
  decision.reason += sentence;
}

void Turn::act(Action action) {
  if (run != nullptr && run->conditions.observe_only &&
      !std::holds_alternative<SendAlert>(action)) {
    say(fmt::format("{} withheld: the run is only observed", kind_of(action)));
    return;
  }
  decision.actions.push_back(std::move(action));
}

void Turn::go(TrainingState next, Trigger trigger, const std::string& sentence) {
  RunState& state = r();
  STOKER_CHECK(allowed(kind_of(state.training), trigger, kind_of(next)),
               fmt::format("{} --{}--> {} is not in the table", state_name(state.training),
                           kTriggerNames[static_cast<std::size_t>(trigger)], state_name(next)));
  say(sentence);
  if (kind_of(state.training) != kind_of(next)) {
    state.since = now();
    state.since_wall = event.wall;
    const bool copies =
        kind_of(next) == TrainingKind::Finished && !state.policy.checkpoints.archive_to.empty();
    state.jobs.leftover_at = now() + wire::kLeftOver + (copies ? wire::kLastCopies : 0s);
  }
  if (!sentence.empty()) state.why = sentence;
  state.training = std::move(next);
  if (is_over(state.training)) halt(*this, sentence);
}

void Turn::go(supply::Submission& submission, supply::State next, SupplyTrigger trigger) {
  STOKER_CHECK(allowed(kind_of(submission.state), trigger, kind_of(next)),
               fmt::format("supply: {} --{}--> {} is not in the table",
                           kSupplyNames[submission.state.index()],
                           kSupplyTriggerNames[static_cast<std::size_t>(trigger)],
                           kSupplyNames[next.index()]));
  submission.state = std::move(next);
}

void Turn::reject(const std::string& sentence) {
  decision.rejected = true;
  say(sentence);
}

}  // namespace stoker::core
