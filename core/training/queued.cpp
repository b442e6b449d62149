// Queued: a submission waits, or is tried again; the first sign of life of its job is the start. A
// task may also end while nothing of it ran.
#include "core/recover/recover.hpp"
#include "core/supply/script.hpp"
#include "core/supply/supply.hpp"
#include "core/timers.hpp"
#include "core/training/reactions.hpp"

namespace stoker::core::training {
namespace {

RunningTask awaited_task(const RunState&) {
  return RunningTask::Awaited;
}

void lose_queued_task(Turn& turn, const TaskEnd& end) {
  turn.say(end.sentence);
  supply::ensure(turn, "");
}

// The job's start comes first.
void start_with_ranks(Turn& turn, const wire::AttemptStarted& e, const std::string& sentence) {
  turn.go(Starting{turn.now()}, Trigger::JobRuns, "");
  begin_ranks(turn, e, sentence);
}

void submit_now(RunState& run, Instant now) {
  auto& queued = std::get<Queued>(run.training);
  if (queued.submit_at) queued.submit_at = now;
}

}  // namespace

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

const Reactions& reactions(const Queued&) {
  static constexpr Reactions kQueued{
      .task_runs = awaited_task,
      .task_ends = lose_queued_task,
      .generation_starts = ignore,
      .ranks_start = start_with_ranks,
      .iterates = ignore,
      .heartbeats = unwatched,
      .rank_exits = ignore,
      .attempt_ends = note_outcome,
      .agent_lost = say_lost_agent,
      .lead_silent = ignore,
      .stop = stop_resting,
      .resume = supply::ensure,
      .added_again = keep_until_next_start,
      .finish_file = finish,
      .daemon_back = waits_for_no_report,
      .room_again = submit_now,
  };
  return kQueued;
}

}  // namespace stoker::core::training
