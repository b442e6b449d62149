// Timers of a run. A row of the table (timers.cpp) says when something is due and what happens
// then, so that the moment at which the daemon wakes and what it does there cannot disagree. The
// functions of a row stand side by side in the file of their state or concern. To add one: declare
// the two here, define them there, add the row.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "core/state.hpp"
#include "core/turn.hpp"

namespace stoker::core {

struct Timer {
  std::string_view name;
  // When it is due; empty: it is not set.
  std::optional<Instant> (*due)(const SiteState& site, const RunState& run);
  // What happens then. It moves its own due time: a timer that stays due would fire for ever.
  void (*act)(Turn& turn);
};

// Of two moments the earlier one; empty: none.
inline void keep_earliest(std::optional<Instant>& best, std::optional<Instant> at) {
  if (at && (!best || *at < *best)) best = at;
}

// In the order in which they act.
std::span<const Timer> timers();

// What is due at this moment in the run of the turn.
void on_time(Turn& turn);

// How long to wait where the scheduler is blind or the disk is full before the next look.
inline constexpr Duration kBlindRetry = 30s;

// effects.cpp
std::optional<Instant> retry_at(const SiteState& site, const RunState& run);

// operators/requests.cpp
std::optional<Instant> planned_stop_at(const SiteState& site, const RunState& run);
void stop_as_planned(Turn& turn);
std::optional<Instant> save_again_at(const SiteState& site, const RunState& run);
void save_again(Turn& turn);
std::optional<Instant> save_by_interval_at(const SiteState& site, const RunState& run);
void save_by_interval(Turn& turn);

namespace supply {
// answers.cpp: a submission whose answer is unknown is searched for.
std::optional<Instant> look_up_at(const SiteState& site, const RunState& run);
void look_up_again(Turn& turn);
// array_limit.cpp: an array whose tasks wait for one that is over is replaced.
std::optional<Instant> limit_lasts_until(const SiteState& site, const RunState& run);
void replace_limited(Turn& turn);
// task_end.cpp: the last reports of an ended task have had their time.
std::optional<Instant> decide_end_at(const SiteState& site, const RunState& run);
void decide_ends(Turn& turn);
}  // namespace supply

namespace training {
// queued.cpp
std::optional<Instant> submit_at(const SiteState& site, const RunState& run);
void submit_again(Turn& turn);
// starting.cpp
std::optional<Instant> agents_due(const SiteState& site, const RunState& run);
void agents_silent(Turn& turn);
// training.cpp
std::optional<Instant> save_overdue_at(const SiteState& site, const RunState& run);
void report_overdue_save(Turn& turn);
// running.cpp
std::optional<Instant> wall_at(const SiteState& site, const RunState& run);
void leave_before_wall(Turn& turn);
std::optional<Instant> limbo_at(const SiteState& site, const RunState& run);
std::optional<Instant> digest_at(const SiteState& site, const RunState& run);
// suspect.cpp
std::optional<Instant> verdict_at(const SiteState& site, const RunState& run);
void give_verdict(Turn& turn);
// stopping.cpp
std::optional<Instant> escalate_at(const SiteState& site, const RunState& run);
void escalate(Turn& turn);
// recovering.cpp
std::optional<Instant> recover_again_at(const SiteState& site, const RunState& run);
void recover_again(Turn& turn);
// held.cpp
std::optional<Instant> held_retry_at(const SiteState& site, const RunState& run);
void leave_held(Turn& turn);
// resting.cpp
std::optional<Instant> leftover_at(const SiteState& site, const RunState& run);
void cancel_leftover(Turn& turn);
}  // namespace training

}  // namespace stoker::core
