// What operators asked for and is not done yet: a save that the agents did not acknowledge, a stop
// that waits for its hour or its iteration; and the saves that stoker asks for by itself.
#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/handlers.hpp"
#include "core/recover/save_interval.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/script.hpp"
#include "core/timers.hpp"
#include "core/training/reactions.hpp"

namespace stoker::core {
namespace {

constexpr Duration kAckWithin = 30s;

}  // namespace

void ask_save(Turn& turn, const std::string& by, const std::string& sentence) {
  RunState& run = turn.r();
  if (!run.live) return;
  if (!has_agents(run.policy)) {
    if (run.policy.train.save_signal.empty())
      return leave(turn, training::Goal::Next, wire::Level::SaveAndLeave,
                   fmt::format("{}; this training can only save by exiting; the next job continues",
                               sentence));
    turn.say(sentence);
    script::ask_save(turn);
    return;
  }
  ++run.asked.control.save;
  run.asked.save =
      SaveRequest{run.asked.control.save, by, turn.now(), turn.now() + kAckWithin, 0, false};
  turn.say(sentence);
  write_control(turn, sentence);
}

void stop_now(Turn& turn, wire::Level level, const std::string& by, const std::string& sentence) {
  RunState& run = turn.r();
  run.asked.planned_stop.reset();
  training::reactions_of(run).stop(turn, {level, by, sentence});
}

void check_planned(Turn& turn) {
  RunState& run = turn.r();
  if (run.asked.save_at && run.health.progress.iteration >= *run.asked.save_at) {
    run.asked.save_at.reset();
    ask_save(turn, "an operator",
             fmt::format("iteration {} is reached: saving, as requested",
                         run.health.progress.iteration.value));
  }
  if (!run.asked.planned_stop || !run.asked.planned_stop->at_iteration ||
      run.health.progress.iteration < *run.asked.planned_stop->at_iteration)
    return;
  const PlannedStop planned = *run.asked.planned_stop;
  stop_now(turn, wire::Level::SaveAndLeave, planned.by,
           fmt::format("iteration {} is reached: stopping, as {} asked",
                       planned.at_iteration->value, planned.by));
}

void on_acknowledged(Turn& turn, const wire::Acknowledged& e) {
  RunState& run = turn.r();
  if (e.what == "save" && run.asked.save && e.value >= run.asked.save->counter) {
    if (!e.detail.empty()) {
      turn.say(fmt::format("save request {} of {}: {}", e.value, run.asked.save->by, e.detail));
      run.asked.save.reset();
      return;
    }
    run.asked.save->taken = true;
    turn.say(fmt::format("the agents acknowledged save request {}", e.value));
  }
}

std::optional<Instant> planned_stop_at(const SiteState&, const RunState& run) {
  return run.asked.planned_stop ? run.asked.planned_stop->at : std::nullopt;
}

void stop_as_planned(Turn& turn) {
  const PlannedStop planned = *turn.r().asked.planned_stop;
  stop_now(turn, wire::Level::SaveAndLeave, planned.by,
           fmt::format("the planned time is reached: stopping, as {} asked", planned.by));
}

std::optional<Instant> save_again_at(const SiteState&, const RunState& run) {
  if (!run.asked.save || run.asked.save->taken) return std::nullopt;
  return run.asked.save->repeat_at;
}

void save_again(Turn& turn) {
  RunState& run = turn.r();
  if (run.conditions.is_cut_off()) {
    run.asked.save->repeat_at = turn.now() + kBlindRetry;
    return;
  }
  SaveRequest& save = *run.asked.save;
  ++save.repeats;
  save.repeat_at = turn.now() + 30s * std::min(save.repeats + 1, 10);
  turn.say(fmt::format("save request {} was not acknowledged for {}; repeating it", save.counter,
                       format_duration(turn.now() - save.asked_at)));
  write_control(turn, "save, requested again");
  if (save.repeats == 2)
    raise(turn, {Severity::Warning, "save_unanswered",
                 fmt::format("{} does not acknowledge a request to save", turn.name().text),
                 command_text(turn.name(), "stacks"), ""});
}

std::optional<Instant> save_by_interval_at(const SiteState&, const RunState& run) {
  return interval_save_at(run);
}

void save_by_interval(Turn& turn) {
  RunState& run = turn.r();
  const Duration interval = *save_interval(run);
  run.asked.interval_asked = turn.now();
  const bool own = run.policy.checkpoints.interval_auto;
  ask_save(turn, "checkpoints.interval",
           fmt::format("{} since the last save{}: saving", format_duration(interval),
                       own ? fmt::format(" (Daly, {} so far)",
                                         count_text(run.recovery.budget.restarts, "failure"))
                           : ""));
}

}  // namespace stoker::core
