// What the decider does about the calendar: waiting jobs are replaced before their nodes leave, and
// the end of the run's own reservation is announced.
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/alerts/alerting.hpp"
#include "core/sentence.hpp"
#include "core/supply/calendar.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"
#include "core/timers.hpp"

namespace stoker::core::supply {
namespace {

constexpr Duration kAnnounced = 24h;

// A pending submission that SLURM cannot start any more before a reservation begins, and another
// one could.
Submission* outgrown(Turn& turn, const Grant& grant) {
  for (auto& [token, s] : turn.r().jobs.supply) {
    const bool waits = std::holds_alternative<Pending>(s.state) && s.waiting() > 0 &&
                       !s.cancel_asked && !s.rest_cancelled;
    if (!waits || s.time_limit == Duration{}) continue;
    const auto there = nodes_for(turn, s.time_limit);
    const bool other = grant.size.with_spares < s.nodes || grant.limit < s.time_limit;
    if (there && *there < s.nodes && other) return &s;
  }
  return nullptr;
}

void announce_end(Turn& turn) {
  RunState& run = turn.r();
  const auto end = own_end(*turn.site.calendar, run.policy.scheduler, turn.event.wall);
  const std::string names =
      fmt::format("{}", fmt::join(own_reservations(run.policy.scheduler), ","));
  if (end) run.conditions.reservation_seen = true;
  if (!end || *end - turn.event.wall > kAnnounced) return resolve(turn, "reservation_ends");
  if (run.conditions.reservation_told == *end) return;
  run.conditions.reservation_told = *end;
  const std::string text = fmt::format(
      "the reservation {} ends at {}; the training saves and leaves before, and goes on without it",
      names, format_rfc3339(*end));
  turn.say(text);
  raise(turn, {Severity::Warning, "reservation_ends", fmt::format("{}: {}", turn.name().text, text),
               "scontrol show reservation  # another one: scheduler.extra in RUN.yaml", ""});
}

}  // namespace

void follow_calendar(Turn& turn) {
  if (!turn.site.calendar) return;
  RunState& run = turn.r();
  run.conditions.calendar_looked = turn.event.wall;
  for (const auto& [token, s] : run.jobs.supply)
    if (std::holds_alternative<Pending>(s.state))
      run.conditions.calendar_order = std::max(run.conditions.calendar_order, s.order);
  announce_end(turn);
  if (turn.in<training::Queued>() == nullptr || !has_agents(run.policy) || run.asked.paused) return;
  const Grant grant = grant_for(turn);
  const Submission* s = outgrown(turn, grant);
  if (s == nullptr) return;
  turn.say(
      fmt::format("{} asks for {} and {}, but nodes are reserved before that is over; replacing it "
                  "by {} for {}",
                  job_text(s->job), count_text(s->nodes, "node"), format_duration(s->time_limit),
                  count_text(grant.size.with_spares, "node"), format_duration(grant.limit)));
  cancel_waiting(turn);
}

void on_calendar(Turn& turn, const CalendarSeen& seen) {
  turn.site.calendar = seen;
  for (auto& [name, run] : turn.site.runs) {
    turn.run = &run;
    follow_calendar(turn);
  }
  turn.run = nullptr;
}

// Each moment at which the answer may be another one: a day before the own reservation's end; and
// in the queue at its beginning, and when what waits cannot start any more before a reservation.
std::optional<Instant> calendar_at(const SiteState& site, const RunState& run) {
  if (!site.calendar) return std::nullopt;
  const auto own = own_reservations(run.policy.scheduler);
  const bool queued = std::holds_alternative<training::Queued>(run.training);
  std::optional<Instant> due;
  const auto consider = [&](WallTime at) {
    if (at > run.conditions.calendar_looked) keep_earliest(due, site.now + (at - site.wall));
  };
  if (queued && !site.calendar->reservations.empty()) consider(run.since_wall);
  for (const auto& [token, s] : run.jobs.supply)  // a new one, at once
    if (queued && std::holds_alternative<Pending>(s.state) &&
        s.order > run.conditions.calendar_order && !site.calendar->reservations.empty())
      keep_earliest(due, site.now);
  for (const Reservation& r : site.calendar->reservations) {
    if (std::find(own.begin(), own.end(), r.name) != own.end()) {
      consider(r.until - kAnnounced);
    } else if (queued) {
      for (const auto& [token, s] : run.jobs.supply)
        if (std::holds_alternative<Pending>(s.state) && s.time_limit > Duration{})
          consider(r.from - s.time_limit);
    }
  }
  return due;
}

}  // namespace stoker::core::supply
