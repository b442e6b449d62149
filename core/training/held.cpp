// Held: an operator is needed, or space on a disk, which is tried again by itself.
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"
#include "core/timers.hpp"

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

namespace training {

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
  for (const auto& [token, s] : run.supply) live = live || s.live();
  if (live)
    turn.go(Queued{}, Trigger::Submits, "trying again after the pause in the next task");
  else
    supply::submit(turn, "trying again after the pause");
}

}  // namespace training

}  // namespace stoker::core
