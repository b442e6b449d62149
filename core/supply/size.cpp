// How many nodes a submission asks for, and for how long: RUN.yaml's plan, what is usable, and what
// is reserved.
#include <algorithm>
#include <fmt/format.h>

#include "core/nodes/ledger.hpp"
#include "core/sentence.hpp"
#include "core/supply/calendar.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core::supply {

// Active nodes by consumed samples, as RUN.yaml plans them.
std::uint32_t planned_nodes(const RunState& run) {
  std::uint32_t nodes = 1;
  for (const NodesStep& step : run.policy.scheduler.nodes) {
    nodes = step.nodes;
    if (step.until_samples == 0 || run.health.progress.samples < step.until_samples) break;
  }
  return nodes;
}

// Where the scheduler has said that too few nodes remain, only RUN.yaml's own list is kept.
std::vector<NodeName> avoided_nodes(const Turn& turn, std::uint32_t needed) {
  const RunState& run = turn.r();
  const auto& fixed = run.policy.scheduler.exclude;
  if (run.jobs.without_exclusions) return fixed;
  return exclusions_for_submit(turn.site.ledger, fixed, needed, turn.now());
}

namespace {

IsUsable usable_without(const NodeLedger& ledger, std::vector<NodeName> avoid) {
  return [&ledger, avoid = std::move(avoid)](const NodeName& node) {
    const auto found = ledger.nodes.find(node);
    return (found == ledger.nodes.end() || found->second.usable) &&
           std::find(avoid.begin(), avoid.end(), node) == avoid.end();
  };
}

// Of the run's partition, where its nodes are known; else of the cluster.
std::uint32_t usable_for(const Turn& turn, const std::vector<NodeName>& avoid) {
  const NodeLedger& ledger = turn.site.ledger;
  std::optional<std::uint32_t> here;
  if (turn.site.calendar) {
    CalendarSeen bare = *turn.site.calendar;
    bare.reservations.clear();
    here = nodes_between(bare, turn.r().policy.scheduler, usable_without(ledger, avoid),
                         turn.event.wall, turn.event.wall + 1s);
  }
  return here ? *here : usable_nodes(ledger, avoid);
}

}  // namespace

Size size_for(const Turn& turn) {
  const RunState& run = turn.r();
  const SchedulerPolicy& policy = run.policy.scheduler;
  Size size;
  size.active = planned_nodes(run);
  size.with_spares = size.active + policy.spares;
  if (!has_agents(run.policy)) return size;                           // the script knows its size
  if (turn.site.ledger.nodes.size() < size.with_spares) return size;  // the cluster is not known
  const std::uint32_t usable = usable_for(turn, avoided_nodes(turn, size.active));
  size.active = fitting_size(policy, size.active, usable);
  size.with_spares = std::clamp(usable, size.active, size.active + policy.spares);
  return size;
}

std::optional<std::uint32_t> nodes_for(const Turn& turn, Duration limit) {
  if (!turn.site.calendar) return std::nullopt;
  const auto avoid = avoided_nodes(turn, size_for(turn).active);
  return nodes_between(*turn.site.calendar, turn.r().policy.scheduler,
                       usable_without(turn.site.ledger, avoid), turn.event.wall,
                       turn.event.wall + limit);
}

Grant grant_for(const Turn& turn) {
  const RunState& run = turn.r();
  const SchedulerPolicy& policy = run.policy.scheduler;
  Grant grant{size_for(turn), policy.time_limit};
  if (!turn.site.calendar || !has_agents(run.policy)) return grant;
  const auto avoid = avoided_nodes(turn, grant.size.active);
  const Offer offer = offer_at(*turn.site.calendar, policy, usable_without(turn.site.ledger, avoid),
                               grant.size.active, worth_a_start(run.policy), turn.event.wall);
  grant = {{offer.active, offer.active + policy.spares}, offer.limit};
  if (const auto there = nodes_for(turn, offer.limit))
    grant.size.with_spares = std::clamp(*there, offer.active, offer.active + policy.spares);
  return grant;
}

// Behind a job that runs, it is not known when the next one starts: what it may ask for is decided
// when it waits (follow_calendar.cpp).
Grant grant_of_next(const Turn& turn) {
  const RunState& run = turn.r();
  if (running_submission(run) != nullptr) return {size_for(turn), run.policy.scheduler.time_limit};
  return grant_for(turn);
}

void resize_waiting(Turn& turn) {
  RunState& run = turn.r();
  if (turn.in<training::Queued>() == nullptr || turn.site.ledger.nodes.empty()) return;
  const Size size = size_for(turn);
  const std::uint32_t usable = usable_for(turn, avoided_nodes(turn, size.active));
  for (auto& [token, s] : run.jobs.supply) {
    const bool pending = std::holds_alternative<Pending>(s.state) && s.waiting() > 0;
    if (!pending || turn.site.ledger.nodes.size() < s.nodes || usable >= s.nodes ||
        size.with_spares >= s.nodes)
      continue;
    turn.say(fmt::format("{} wants {} but {} usable; replacing it by one of {}", job_text(s.job),
                         count_text(s.nodes, "node"),
                         usable == 1 ? std::string("1 is") : fmt::format("{} are", usable),
                         size.with_spares));
    cancel_waiting(turn);
    return;
  }
}

}  // namespace stoker::core::supply
