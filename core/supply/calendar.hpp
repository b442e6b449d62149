// The cluster's calendar for a run: its partition's nodes, without those that others have reserved,
// or the nodes of its own reservation (--reservation in scheduler.extra) while that lasts. SLURM
// starts no job on a node that is reserved before the job's time limit is over, and ends a job with
// its reservation. So a submission asks for what there is until then: first for less time, and
// where that would not be worth a start, for fewer nodes. Pure; `stoker plan --calendar` shows it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/event.hpp"
#include "core/policy.hpp"
#include "core/turn.hpp"

namespace stoker::core::supply {

using IsUsable = std::function<bool(const NodeName&)>;

// Of scheduler.extra: "--reservation=a,b", "--reservation", "a". Empty: none is named.
std::vector<std::string> own_reservations(const SchedulerPolicy& policy);
// When the last of them ends. Empty: none is named, or all are over (see all_over), or not known.
std::optional<WallTime> own_end(const CalendarSeen& calendar, const SchedulerPolicy& policy,
                                WallTime now);
// Reservations are named, and none of them is to come or lasts.
bool all_over(const CalendarSeen& calendar, const SchedulerPolicy& policy, WallTime now);

// The largest allowed size that `usable` nodes can carry; `active` itself where none is smaller.
std::uint32_t fitting_size(const SchedulerPolicy& policy, std::uint32_t active,
                           std::uint32_t usable);

// Nodes for a job that would run in [from, until). Empty optional: the partition is not known.
std::optional<std::uint32_t> nodes_between(const CalendarSeen& calendar,
                                           const SchedulerPolicy& policy, const IsUsable& usable,
                                           WallTime from, WallTime until);

struct Offer {
  std::uint32_t active = 1;
  Duration limit{};
};
// What a submission at `now` asks for: `active` nodes for scheduler.time_limit, or less of either.
// `worth`: the shortest time limit that a start of that size is worth.
Offer offer_at(const CalendarSeen& calendar, const SchedulerPolicy& policy, const IsUsable& usable,
               std::uint32_t active, Duration worth, WallTime now);
Duration worth_a_start(const RunPolicy& policy);

// A time in which the same nodes are there.
struct Window {
  WallTime from;
  std::optional<WallTime> until;
  std::uint32_t usable = 0, size = 0;     // nodes; what the run takes of them
  std::vector<std::string> reservations;  // that matter in it
};
std::vector<Window> windows_of(const CalendarSeen& calendar, const SchedulerPolicy& policy,
                               const IsUsable& usable, std::uint32_t active, WallTime now);

// Nodes that leave the run: "n[01-02] at TIME (reservation x of others begins)".
struct Leaving {
  WallTime at;
  std::string nodes, why;
};
std::vector<Leaving> leaving_nodes(const CalendarSeen& calendar, const RunState& run, WallTime now);

// ---- in the decider
void on_calendar(Turn& turn, const CalendarSeen& seen);
// What waits asks for more than there is until a reservation begins: it is replaced.
void follow_calendar(Turn& turn);
std::optional<Instant> calendar_at(const SiteState& site, const RunState& run);

}  // namespace stoker::core::supply
