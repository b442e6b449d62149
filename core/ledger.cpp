// Node ledger: evidence in, exclusions out; capped, and lifted where a run could not start at all.
#include "core/ledger.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace stoker::core {
namespace {

constexpr Duration kSuspectFor = 24h;
constexpr std::uint32_t kWeakLimit = 2;  // weak evidence of one kind within kSuspectFor

bool contains(const std::vector<NodeName>& nodes, const NodeName& node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

bool is_excluded(const NodeEntry& entry, Instant now) {
  return entry.excluded_until && *entry.excluded_until > now;
}

}  // namespace

std::uint32_t known_nodes(const NodeLedger& ledger) {
  return std::max(ledger.at_least, static_cast<std::uint32_t>(ledger.nodes.size()));
}

NodeHealth health_of(const NodeEntry& entry, Instant now) {
  if (!entry.usable) return NodeHealth::Down;
  if (is_excluded(entry, now)) return NodeHealth::Excluded;
  for (const Evidence& e : entry.evidence)
    if (e.kind != "operator" && e.at + kSuspectFor > now) return NodeHealth::Suspect;
  return NodeHealth::Ok;
}

std::vector<NodeName> excluded_nodes(const NodeLedger& ledger, Instant now) {
  std::vector<NodeName> result;
  for (const auto& [name, entry] : ledger.nodes)
    if (is_excluded(entry, now)) result.push_back(name);
  return result;
}

void exclude_node(NodeLedger& ledger, const NodeName& node, Evidence evidence, Duration length) {
  NodeEntry& entry = ledger.nodes[node];
  entry.excluded_until = evidence.at + length;
  entry.excluded_until_wall = evidence.wall + length;
  entry.by_operator = evidence.kind == "operator";
  entry.evidence.push_back(std::move(evidence));
  if (entry.evidence.size() > kEvidenceKept) entry.evidence.erase(entry.evidence.begin());
}

void include_node(NodeLedger& ledger, const NodeName& node) {
  NodeEntry& entry = ledger.nodes[node];
  entry.excluded_until.reset();
  entry.excluded_until_wall.reset();
  entry.by_operator = false;
  entry.evidence.clear();
}

std::string note_evidence(NodeLedger& ledger, const NodeName& node, Evidence evidence, bool strong,
                          const RecoverPolicy& policy) {
  const Instant now = evidence.at;
  NodeEntry& entry = ledger.nodes[node];
  std::uint32_t same = 1;
  for (const Evidence& e : entry.evidence)
    if (e.kind == evidence.kind && e.at + kSuspectFor > now) ++same;
  const std::string kind = evidence.kind;
  entry.evidence.push_back(std::move(evidence));
  if (entry.evidence.size() > kEvidenceKept) entry.evidence.erase(entry.evidence.begin());
  if (is_excluded(entry, now)) return fmt::format("{} is excluded already", node.text);
  if (!strong && same < kWeakLimit) return fmt::format("{} is suspect", node.text);

  std::uint32_t automatic = 0;
  for (const auto& [name, other] : ledger.nodes)
    if (is_excluded(other, now) && !other.by_operator) ++automatic;
  const std::uint32_t known = known_nodes(ledger);
  const auto cap =
      std::max<std::uint32_t>(1, static_cast<std::uint32_t>(known * policy.exclude_at_most));
  if (automatic >= cap)
    return fmt::format("{} stays in: {} of {} nodes are excluded already, the most allowed",
                       node.text, automatic, known);
  entry.excluded_until = now + policy.exclude_for;
  entry.excluded_until_wall = entry.evidence.back().wall + policy.exclude_for;
  entry.by_operator = false;
  return fmt::format("{} is excluded for {}{}", node.text, format_duration(policy.exclude_for),
                     strong ? "" : fmt::format(", after {} x {} within a day", same, kind));
}

std::uint32_t usable_nodes(const NodeLedger& ledger, const std::vector<NodeName>& without) {
  std::uint32_t count = 0;
  for (const auto& [name, entry] : ledger.nodes)
    if (entry.usable && !contains(without, name)) ++count;
  return count;
}

std::vector<NodeName> exclusions_for_submit(const NodeLedger& ledger,
                                            const std::vector<NodeName>& fixed,
                                            std::uint32_t needed, Instant now) {
  std::vector<NodeName> result = fixed;
  std::vector<std::pair<Instant, NodeName>> automatic;
  for (const auto& [name, entry] : ledger.nodes) {
    if (!is_excluded(entry, now) || contains(result, name)) continue;
    if (entry.by_operator)
      result.push_back(name);
    else
      automatic.emplace_back(*entry.excluded_until, name);
  }
  // Newest evidence first: what does not fit any more is the oldest.
  std::sort(automatic.begin(), automatic.end(), std::greater<>());
  const bool cluster_known = ledger.nodes.size() >= needed;
  for (const auto& [until, name] : automatic) {
    std::vector<NodeName> more = result;
    more.push_back(name);
    if (!cluster_known || usable_nodes(ledger, more) >= needed) result = std::move(more);
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace stoker::core
