#include "core/nodes/drain.hpp"

#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/supply/scheduler_traits.hpp"

namespace stoker::core {
namespace {

bool is_permitted(const RunPolicy& policy) {
  return policy.recover.exclude_drain && traits_of(policy.scheduler.kind).drains;
}

}  // namespace

bool drain_broken(Turn& turn, const NodeName& node, const Evidence& evidence) {
  const RunPolicy& policy = turn.r().policy;
  const NodeEntry& known = turn.site.ledger.nodes.at(node);
  if (!is_permitted(policy) || known.drain_asked || !known.usable) return false;
  const std::string why = fmt::format("{} run={} {}: {}", format_rfc3339(evidence.wall),
                                      turn.name().text, evidence.kind, evidence.text);
  turn.site.ledger.nodes[node].drain_asked = true;  // `known` and `evidence` end here
  turn.act(DrainNode{policy.scheduler.kind, node, why, false});
  return true;
}

void lift_drain(Turn& turn, const NodeName& node) {
  const auto found = turn.site.ledger.nodes.find(node);
  if (found == turn.site.ledger.nodes.end() || !found->second.drain_asked ||
      !is_permitted(turn.r().policy))
    return;
  turn.site.ledger.nodes[node].drain_asked = false;
  turn.act(DrainNode{turn.r().policy.scheduler.kind, node, "", true});
}

void on_drain_done(Turn& turn, const DrainNode& drain, const std::string& what) {
  turn.say(fmt::format("{}: {}", drain.node.text, what));
  resolve(turn, "drain_refused", drain.node.text);
}

void on_drain_refused(Turn& turn, const DrainNode& drain, const EffectFailed& failed) {
  turn.say(fmt::format("{} is not {}: {}; stoker does not try again; ask an administrator",
                       drain.node.text, drain.lift ? "taken back into service" : "drained",
                       failed.why));
  raise(turn, {Severity::Warning, "drain_refused",
               fmt::format("SLURM does not let stoker {} {}: {}", drain.lift ? "resume" : "drain",
                           drain.node.text, failed.why),
               failed.by_hand, drain.node.text});
}

bool is_drain_stale(const SiteState& site, const DrainNode& drain, Instant now) {
  const auto found = site.ledger.nodes.find(drain.node);
  if (found == site.ledger.nodes.end()) return true;
  const NodeEntry& entry = found->second;
  if (drain.lift) return entry.drain_asked;
  return !entry.drain_asked || health_of(entry, now) != NodeHealth::Excluded;
}

}  // namespace stoker::core
