// What Starting, Training and Suspect share, and in part Stopping and Recovering: a job runs the
// ranks. It has a wall, a lead that may say goodbye, and heartbeats that the hang detector wants to
// see in time; its attempts begin and end, and a stop has to wait for it.
#include <algorithm>
#include <fmt/format.h>

#include "core/handlers.hpp"
#include "core/recover/end.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/signals/detect.hpp"
#include "core/signals/probe.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"
#include "core/timers.hpp"
#include "core/training/reactions.hpp"
#include "wire/time_limits.hpp"

namespace stoker::core::training {
namespace {

bool is_watched(const RunState& run) {
  return std::holds_alternative<Starting>(run.training) ||
         std::holds_alternative<Training>(run.training);
}

}  // namespace

RunningTask known_task(const RunState&) {
  return RunningTask::Known;
}

bool is_leave_unwritten(const RunState& run) {
  return run.asked.control.level != wire::Level::Run && run.conditions.no_room_since &&
         !run.asked.exact_order;
}

std::string take_leave_back(Turn& turn, const std::string& sentence) {
  set_level(turn.r(), wire::Level::Run);
  write_control(turn, "");
  return sentence + "; the request to leave could not be written, so the task goes on";
}

void begin_ranks(Turn& turn, const wire::AttemptStarted& e, const std::string& sentence) {
  begin_attempt(turn, e);
  const bool goes_on = is_leave_unwritten(turn.r());
  turn.go(Starting{turn.now()}, Trigger::RanksStart,
          goes_on ? take_leave_back(turn, sentence) : sentence);
}

bool watch_heartbeats(Turn& turn, const signals::Hang& hang) {
  if (hang.verdict == signals::Verdict::Bad) {
    suspect_hang(turn, hang);
    return true;
  }
  check_planned(turn);
  cancel_unneeded(turn);
  supply::follow_plan(turn);
  return false;
}

void end_attempt(Turn& turn, const Outcome& outcome) {
  if (!outcome.all_zero && outcome.code == 0) return end_ordered_attempt(turn, outcome);
  if (is_overtaken(turn)) return note_outcome(turn, outcome);
  on_attempt_ended(turn, outcome);
}

void end_ordered_attempt(Turn& turn, const Outcome& outcome) {
  if (classify(turn.r(), outcome) != EndKind::Finished || is_overtaken(turn))
    return note_outcome(turn, outcome);
  on_attempt_ended(turn, outcome);
}

void stop_running(Turn& turn, const StopAsked& asked) {
  cancel_waiting(turn);
  leave(turn, Goal::Stop, asked.level, asked.sentence);
  turn.in<Stopping>()->by = asked.by;
}

void resume_running(Turn& turn, const std::string& sentence) {
  turn.say(sentence);
  supply::top_up(turn);
}

void keep_until_next_start(Turn& turn, bool same) {
  if (!same) turn.say("it takes effect at the next start");
}

void wait_for_ranks(Turn& turn, const std::string& sentence) {
  turn.say(fmt::format("{}; waiting for the end of its ranks", sentence));
}

void put_off(Instant& at, Instant now, Duration away) {
  if (at != Instant{}) at = std::max(at, now) + std::min<Duration>(away, 60s);
}

std::optional<Instant> wall_at(const SiteState& site, const RunState& run) {
  if (!is_watched(run)) return std::nullopt;
  return signals::limit_at(site, run);
}

void leave_before_wall(Turn& turn) {
  RunState& run = turn.r();
  const auto& step = turn.site.clock_step;
  const bool jumped = step && step->by > 0ns && turn.now() - step->at < 1min;
  const bool reservation = signals::reservation_is_first(turn.site, run);
  if (reservation) cancel_waiting(turn);  // they would start in its last minutes for nothing
  leave(turn, Goal::Next, wire::Level::SaveAndLeave,
        fmt::format("{}{} of {} is {} away; saving and exiting so that the next task continues",
                    jumped ? fmt::format("the clock of this host was set forward by {}: ",
                                         format_duration(step->by))
                           : "",
                    reservation ? "the end of the reservation" : "the time limit",
                    job_text(run.live ? run.live->job : running_submission(run)->job),
                    format_duration(signals::limit_margin(run))));
}

std::optional<Instant> limbo_at(const SiteState&, const RunState& run) {
  const bool runs = is_watched(run) || std::holds_alternative<Suspect>(run.training);
  if (!runs || !run.live || !run.live->goodbye_at) return std::nullopt;
  return probe::limbo_at(*run.live);
}

std::optional<Instant> digest_at(const SiteState& site, const RunState& run) {
  const bool digests = is_watched(run) && run.live && run.live->attempt.value > 0 &&
                       !run.live->goodbye_at && !run.live->outcome && !run.live->lead_silent;
  if (!digests || run.health.progress.deadline <= 0ns) return std::nullopt;
  const Duration beat = wire::beat_every(run.policy.hang.floor);
  const Duration early = has_agents(run.policy) ? beat / 2 : Duration(0s);
  return std::max(run.health.progress.oldest + run.health.progress.deadline, site.now + beat) -
         early;
}

}  // namespace stoker::core::training
