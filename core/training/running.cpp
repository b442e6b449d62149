// What Starting, Training and Suspect share: a job runs the ranks. It has a wall, a lead that may
// say goodbye, and heartbeats that the hang detector wants to see in time.
#include <algorithm>
#include <fmt/format.h>

#include "core/sentence.hpp"
#include "core/signals/detect.hpp"
#include "core/signals/probe.hpp"
#include "core/supply/command.hpp"
#include "core/timers.hpp"
#include "wire/time_limits.hpp"

namespace stoker::core::training {
namespace {

bool is_watched(const RunState& run) {
  return std::holds_alternative<Starting>(run.training) ||
         std::holds_alternative<Training>(run.training);
}

}  // namespace

std::optional<Instant> wall_at(const SiteState& site, const RunState& run) {
  if (!is_watched(run)) return std::nullopt;
  return signals::limit_at(run, site.now, site.wall);
}

void leave_before_wall(Turn& turn) {
  RunState& run = turn.r();
  const auto& step = turn.site.clock_step;
  const bool jumped = step && step->by > 0ns && turn.now() - step->at < 1min;
  leave(turn, Goal::Next, wire::Level::SaveAndLeave,
        fmt::format(
            "{}the time limit of {} is {} away; saving and exiting so that the next task continues",
            jumped ? fmt::format("the clock of this host was set forward by {}: ",
                                 format_duration(step->by))
                   : "",
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
  if (!digests || run.progress.deadline <= 0ns) return std::nullopt;
  const Duration beat = wire::beat_every(run.policy.hang.floor);
  const Duration early = has_agents(run.policy) ? beat / 2 : Duration(0s);
  return std::max(run.progress.oldest + run.progress.deadline, site.now + beat) - early;
}

}  // namespace stoker::core::training
