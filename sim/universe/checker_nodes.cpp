// Invariants about nodes: who is excluded, who should be, and who fails although it is.
#include <algorithm>
#include <fmt/format.h>

#include "sim/universe/checker.hpp"

namespace stoker::sim {
namespace {

bool is_out(const core::NodeEntry& node, Instant now) {
  return node.excluded_until && *node.excluded_until > now;
}

}  // namespace

void Checker::check_exclusions(const core::SiteState& state) {
  if (nodes_.shares(state.ledger.nodes)) return;  // time alone only ends exclusions
  nodes_ = state.ledger.nodes;
  std::uint32_t automatic = 0;
  for (const auto& [name, node] : state.ledger.nodes)
    if (is_out(node, state.now) && !node.by_operator) ++automatic;
  const auto cap = std::max<std::uint32_t>(
      1, static_cast<std::uint32_t>(scenario_.cluster.nodes *
                                    scenario_.policy.recover.exclude_at_most));
  if (automatic > cap)
    broken(fmt::format("{} nodes excluded by itself, {} are allowed", automatic, cap));
}

// A hang is blamed on the node of the rank that stands still, or on no node.
void Checker::check_blamed(const core::JournalRow& row, const core::SiteState& state) {
  const SimGeneration* live = training_.live();
  if (live == nullptr || !live->frozen_at || nodes_.shares(state.ledger.nodes)) return;
  NodeName guilty;
  if (live->odd) guilty = live->attempt_nodes[live->odd->value / live->orders().ranks_per_node];
  for (const auto& [name, node] : state.ledger.nodes)
    if (name != guilty && !node.evidence.empty() && node.evidence.back().kind == "hang" &&
        node.evidence.back().at == state.now && row.event.run == node.evidence.back().run)
      broken(fmt::format("{} is blamed for a hang of {}: {}", name.text,
                         live->odd ? "a rank on " + guilty.text : "all ranks",
                         node.evidence.back().text));
}

// A node whose hardware the kernel has just condemned stays in only if all that are excluded in its
// place are of that kind.
void Checker::check_condemned(const core::JournalRow& row, const core::SiteState& state) {
  const auto* said = std::get_if<core::AgentSaid>(&row.event.body);
  const auto* line = said == nullptr ? nullptr : std::get_if<wire::KernelLine>(&said->event.body);
  if (line == nullptr || line->node_suspect.get() != NodeSuspect::Yes || row.decision.rejected)
    return;
  const auto& nodes = state.ledger.nodes;
  const auto own = nodes.find(line->node);
  if (own == nodes.end() || is_out(own->second, state.now)) return;
  for (const auto& [name, node] : nodes)
    if (is_out(node, state.now) && !node.by_operator && node.record && !node.record->hardware)
      broken(fmt::format("{} with Xid {} stays in, while {} is excluded for less", line->node.text,
                         line->xid.value_or(0), name.text));
}

// Its exclusion may be of a moment ago, and what fails may not be attributed to it at once.
void Checker::fails_again(const SimGeneration& g, const NodeName& node) {
  constexpr std::uint32_t kMost = 3;
  const auto entry = nodes_.find(node);
  if (entry == nodes_.end() || !is_out(entry->second, now_)) return;
  const auto good = std::count_if(cluster_.nodes().begin(), cluster_.nodes().end(),
                                  [](const auto& n) { return n.second.up && !n.second.bad; });
  if (++failed_again_[{g.number, node}] > kMost &&
      good >= static_cast<std::ptrdiff_t>(g.attempt_nodes.size()))
    broken(fmt::format("{} is excluded and failed {} times in one allocation, {} nodes are good",
                       node.text, kMost + 1, good));
}

}  // namespace stoker::sim
