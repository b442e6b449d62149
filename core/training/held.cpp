// Held: an operator is needed, or space on a disk, which is tried again by itself.
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"
#include "core/timers.hpp"
#include "core/training/reactions.hpp"

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
  run.asked.save.reset();
  run.asked.planned_stop.reset();
  if (!hold.retry) {
    if (run.live && !run.live->goodbye_at && has_agents(run.policy)) {
      set_level(run, wire::Level::LeaveNow);
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

namespace training {
namespace {

bool is_tried_again(const RunState& run) {
  return std::get<Held>(run.training).retry_at.has_value();
}

// A task of ours is the next try, or no operator has asked for it.
RunningTask task_of_held(const RunState& run) {
  return is_tried_again(run) ? RunningTask::Known : RunningTask::Unwanted;
}

void start_held_ranks(Turn& turn, const wire::AttemptStarted& e, const std::string& sentence) {
  if (is_tried_again(turn.r())) return begin_ranks(turn, e, sentence);
  say_ranks_start(turn, e, sentence);
}

void resume_held(Turn& turn, const std::string& sentence) {
  forgive(turn);
  if (turn.r().live && can_restart_inside(turn) && turn.r().asked.control.level == wire::Level::Run)
    return restart_inside(turn, "resumed", sentence);
  submit_resumed(turn, sentence);
}

}  // namespace

void retry_with_room(RunState& run, Instant now) {
  auto* held = std::get_if<Held>(&run.training);
  if (held != nullptr && held->retry_at && held->alert_kind == "disk_full") held->retry_at = now;
}

std::optional<Instant> held_retry_at(const SiteState&, const RunState& run) {
  const auto* held = std::get_if<Held>(&run.training);
  return held == nullptr ? std::nullopt : held->retry_at;
}

void leave_held(Turn& turn) {
  RunState& run = turn.r();
  auto& held = *turn.in<Held>();
  held.retry_at.reset();
  if (can_restart_inside(turn))
    return restart_inside(turn, "disk_full", "trying again after the pause");
  bool live = false;
  for (const auto& [token, s] : run.jobs.supply) live = live || s.live();
  if (live)
    turn.go(Queued{}, Trigger::Submits, "trying again after the pause in the next task");
  else
    supply::submit(turn, "trying again after the pause");
}

const Reactions& reactions(const Held&) {
  static constexpr Reactions kHeld{
      .task_runs = task_of_held,
      .task_ends = say_task_end,
      .generation_starts = ignore,
      .ranks_start = start_held_ranks,
      .iterates = ignore,
      .heartbeats = unwatched,
      .rank_exits = ignore,
      .attempt_ends = note_outcome,
      .agent_lost = say_lost_agent,
      .lead_silent = ignore,
      .stop = stop_resting,
      .resume = resume_held,
      .added_again = stay_until_resume,
      .finish_file = finish,
      .daemon_back = waits_for_no_report,
      .room_again = retry_with_room,
  };
  return kHeld;
}

}  // namespace training

}  // namespace stoker::core
