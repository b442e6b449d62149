// Queued: the next try of a submission that failed, and a task that ended while nothing of it ran.

#include "core/supply/script.hpp"
#include "core/supply/supply.hpp"
#include "core/timers.hpp"
#include "core/training/task_end.hpp"

namespace stoker::core::training {
std::optional<Instant> submit_at(const SiteState&, const RunState& run) {
  const auto* queued = std::get_if<Queued>(&run.training);
  return queued == nullptr ? std::nullopt : queued->submit_at;
}

void submit_again(Turn& turn) {
  auto& queued = *turn.in<Queued>();
  queued.submit_at.reset();
  if (queued.tree) return script::look_again(turn);
  supply::ensure(turn, "the pause is over");
}

void on_task_end(Turn& turn, const Queued&, const TaskEnd& end) {
  turn.say(end.sentence);
  supply::ensure(turn, "");
}

}  // namespace stoker::core::training
