// Node ledger of the site: what speaks against each node, who excluded it and until when. Strong
// evidence (the one silent rank of a hang, a GPU that fell off the bus) excludes at once, weak
// evidence (a crashed rank, a lost agent) on its second time. Automatic exclusions are capped, so
// that a software fault cannot exclude the cluster. A node that the scheduler calls down needs no
// exclusion.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/shared_map.hpp"
#include "core/policy.hpp"

namespace stoker::core {

enum class NodeHealth { Ok, Suspect, Excluded, Down };

struct Evidence {
  Instant at;
  WallTime wall;
  RunName run;
  std::string kind;  // "hang" "xid" "rank_crash" "agent_lost" "operator"
  std::string text;
  STOKER_FIELDS(Evidence, at, wall, run, kind, text)
};

struct NodeEntry {
  bool usable = true;  // as the scheduler tells it
  std::string scheduler_state, scheduler_reason;
  std::vector<Evidence> evidence;  // the last kEvidenceKept, oldest first
  std::optional<Instant> excluded_until;
  std::optional<WallTime> excluded_until_wall;
  bool by_operator = false;
  STOKER_FIELDS(NodeEntry, usable, scheduler_state, scheduler_reason, evidence, excluded_until,
                excluded_until_wall, by_operator)
};

inline constexpr std::size_t kEvidenceKept = 8;

struct NodeLedger {
  SharedMap<NodeName, NodeEntry> nodes;  // that something is known about
  std::uint32_t at_least = 0;  // nodes that the site has: the largest allocation ever seen
  STOKER_FIELDS(NodeLedger, nodes, at_least)
};

// How many nodes there are at least: SLURM does not tell of nodes that nothing happened to.
std::uint32_t known_nodes(const NodeLedger& ledger);

NodeHealth health_of(const NodeEntry& entry, Instant now);
std::vector<NodeName> excluded_nodes(const NodeLedger& ledger, Instant now);

// Notes evidence and excludes the node if that is due. Returns what was done, as the end of a
// sentence: "n02 is excluded for 24h", "n02 is suspect", "n02 stays in: 1 of 3 nodes are excluded
// already".
std::string note_evidence(NodeLedger& ledger, const NodeName& node, Evidence evidence, bool strong,
                          const RecoverPolicy& policy);

void exclude_node(NodeLedger& ledger, const NodeName& node, Evidence evidence, Duration length);
void include_node(NodeLedger& ledger, const NodeName& node);

// The nodes a submission must avoid: `fixed` (RUN.yaml), then what operators and the ledger
// exclude, as long as `needed` usable nodes remain; automatic exclusions are left out oldest first
// when they do not.
std::vector<NodeName> exclusions_for_submit(const NodeLedger& ledger,
                                            const std::vector<NodeName>& fixed,
                                            std::uint32_t needed, Instant now);

// Nodes known, usable and not in `without`.
std::uint32_t usable_nodes(const NodeLedger& ledger, const std::vector<NodeName>& without);

}  // namespace stoker::core

template <>
struct stoker::EnumNames<stoker::core::NodeHealth> {
  static constexpr std::array names{"ok", "suspect", "excluded", "down"};
};
