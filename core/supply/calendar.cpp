#include "core/supply/calendar.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "common/hostlist.hpp"
#include "core/sentence.hpp"

namespace stoker::core::supply {
namespace {

constexpr std::size_t kMostLeaving = 8;

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::string_view name = text.substr(0, text.find(','));
    text.remove_prefix(std::min(name.size() + 1, text.size()));
    if (!name.empty()) names.emplace_back(name);
  }
  return names;
}

std::vector<NodeName> nodes_in(const std::string& hostlist) {
  return expand_hostlist(hostlist).value_or(std::vector<NodeName>{});
}

const Partition* partition_of(const CalendarSeen& calendar, const SchedulerPolicy& policy) {
  for (const Partition& partition : calendar.partitions)
    if (policy.partition.empty() ? partition.by_default : partition.name == policy.partition)
      return &partition;
  return nullptr;
}

// When others take nodes, in the order of time.
std::vector<WallTime> beginnings(const CalendarSeen& calendar, const std::vector<std::string>& own,
                                 WallTime now, WallTime until) {
  std::vector<WallTime> out;
  for (const Reservation& r : calendar.reservations)
    if (!contains(own, r.name) && r.from > now && r.from < until) out.push_back(r.from);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::vector<std::string> own_reservations(const SchedulerPolicy& policy) {
  constexpr std::string_view kOption = "--reservation";
  std::vector<std::string> names;
  for (std::size_t i = 0; i < policy.extra.size(); ++i) {
    std::string_view word = policy.extra[i];
    if (!word.starts_with(kOption)) continue;
    word.remove_prefix(kOption.size());
    if (word.starts_with('='))
      names = split_names(word.substr(1));
    else if (word.empty() && i + 1 < policy.extra.size())
      names = split_names(policy.extra[i + 1]);
  }
  return names;
}

std::optional<WallTime> own_end(const CalendarSeen& calendar, const SchedulerPolicy& policy,
                                WallTime now) {
  const auto own = own_reservations(policy);
  std::optional<WallTime> end;
  for (const Reservation& r : calendar.reservations)
    if (contains(own, r.name) && r.until > now) end = std::max(end.value_or(r.until), r.until);
  return end;
}

bool all_over(const CalendarSeen& calendar, const SchedulerPolicy& policy, WallTime now) {
  return !own_reservations(policy).empty() && !own_end(calendar, policy, now);
}

std::uint32_t fitting_size(const SchedulerPolicy& policy, std::uint32_t active,
                           std::uint32_t usable) {
  std::uint32_t size = active;
  if (usable < active)
    for (const std::uint32_t allowed : policy.nodes_allowed)
      if (allowed <= usable && (size > usable || allowed > size)) size = allowed;
  return size;
}

std::optional<std::uint32_t> nodes_between(const CalendarSeen& calendar,
                                           const SchedulerPolicy& policy, const IsUsable& usable,
                                           WallTime from, WallTime until) {
  const Partition* partition = partition_of(calendar, policy);
  if (partition == nullptr) return std::nullopt;
  const auto own = own_reservations(policy);
  const auto all = nodes_in(partition->nodes);
  if (all.empty()) return std::nullopt;
  std::set<NodeName> nodes(all.begin(), all.end()), reserved;
  for (const Reservation& r : calendar.reservations) {
    if (r.until <= from || r.from >= until) continue;
    const auto taken = nodes_in(r.nodes);
    if (contains(own, r.name))
      reserved.insert(taken.begin(), taken.end());
    else
      for (const NodeName& node : taken) nodes.erase(node);
  }
  if (!reserved.empty()) nodes = std::move(reserved);
  return static_cast<std::uint32_t>(std::count_if(nodes.begin(), nodes.end(), usable));
}

Duration worth_a_start(const RunPolicy& policy) {
  const Duration worth = std::max<Duration>(1h, 4 * policy.train.exit_before_limit);
  return std::min(worth, policy.scheduler.time_limit / 2);
}

Offer offer_at(const CalendarSeen& calendar, const SchedulerPolicy& policy, const IsUsable& usable,
               std::uint32_t active, Duration worth, WallTime now) {
  const WallTime end = now + policy.time_limit;
  const auto whole = nodes_between(calendar, policy, usable, now, end);
  if (!whole || *whole >= active) return {active, policy.time_limit};
  const auto own = own_reservations(policy);
  Offer shorter{active, {}};
  for (const WallTime begin : beginnings(calendar, own, now, end)) {
    if (nodes_between(calendar, policy, usable, now, begin).value_or(0) < active) break;
    const Duration gap = begin - now;
    shorter.limit = gap - std::max<Duration>(2min, gap / 10);  // it may wait for a while
  }
  if (shorter.limit >= worth) return shorter;
  return {fitting_size(policy, active, *whole), policy.time_limit};
}

std::vector<Window> windows_of(const CalendarSeen& calendar, const SchedulerPolicy& policy,
                               const IsUsable& usable, std::uint32_t active, WallTime now) {
  std::set<WallTime> edges{now};
  for (const Reservation& r : calendar.reservations)
    for (const WallTime edge : {r.from, r.until})
      if (edge > now) edges.insert(edge);
  std::vector<Window> windows;
  for (auto edge = edges.begin(); edge != edges.end(); ++edge) {
    const auto next = std::next(edge);
    Window window;
    window.from = *edge;
    if (next != edges.end()) window.until = *next;
    const WallTime until = window.until.value_or(*edge + 1s);
    window.usable = nodes_between(calendar, policy, usable, *edge, until).value_or(0);
    window.size = fitting_size(policy, active, window.usable);
    for (const Reservation& r : calendar.reservations)
      if (r.from <= *edge && r.until > *edge) window.reservations.push_back(r.name);
    const bool same = !windows.empty() && windows.back().usable == window.usable &&
                      windows.back().reservations == window.reservations;
    if (same)
      windows.back().until = window.until;
    else
      windows.push_back(std::move(window));
  }
  return windows;
}

std::vector<Leaving> leaving_nodes(const CalendarSeen& calendar, const RunState& run,
                                   WallTime now) {
  const SchedulerPolicy& policy = run.policy.scheduler;
  const auto own = own_reservations(policy);
  const Partition* partition = partition_of(calendar, policy);
  std::set<NodeName> ours;
  if (run.live) ours.insert(run.live->nodes.begin(), run.live->nodes.end());
  if (ours.empty() && partition != nullptr)
    for (const NodeName& node : nodes_in(partition->nodes)) ours.insert(node);
  std::vector<Leaving> out;
  for (const Reservation& r : calendar.reservations) {
    const bool is_own = contains(own, r.name);
    const WallTime at = is_own ? r.until : r.from;
    if (at <= now || out.size() == kMostLeaving) continue;
    std::vector<NodeName> nodes;
    for (const NodeName& node : nodes_in(r.nodes))
      if (ours.contains(node)) nodes.push_back(node);
    if (nodes.empty()) continue;
    out.push_back({at, compress_hostlist(std::move(nodes)),
                   is_own
                       ? fmt::format("the reservation {} ends", r.name)
                       : fmt::format("reserved as {} until {}", r.name, format_rfc3339(r.until))});
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
  return out;
}

}  // namespace stoker::core::supply
