// Node ledger of the site, across jobs and months: what speaks against each node and its GPUs, who
// excluded it and until when. Strong evidence (the one silent rank of a hang, a GPU that fell off
// the bus) excludes at once, weak evidence (a crashed rank, a lost agent) on its second time within
// a day, or when the suspicion score, the sum of all weights, each halved every 30 days, is 2.
// A node that returns is on parole: the next sign doubles the exclusion, a day of training well
// ends it and counts the accusation as false where no kernel had confirmed it. Automatic exclusions
// are capped, so that a software fault cannot exclude the cluster; at the cap a node whose hardware
// is accused takes the place of the least suspect one whose is not. A node that the scheduler
// reports down needs no exclusion.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/optional_name.hpp"
#include "common/remedy.hpp"
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
  double weight = -1;         // 1 convicts alone, 0 accuses no node; -1: kConvicts or kWeak
  std::string gpu_uuid = {};  // where it is one GPU's
  std::string gpu_serial = {}, gpu_pci = {};
  OptionalName<NodeAction> action = {};  // the Xid catalogue's for the node
  STOKER_FIELDS(Evidence, at, wall, run, kind, text, weight, gpu_uuid, gpu_serial, gpu_pci, action)
};

struct GpuRecord {  // a GPU that was accused; it keeps its record where it is moved to
  std::string uuid, serial, pci;
  double score = 0;  // as of score_at
  Instant score_at;
  STOKER_FIELDS(GpuRecord, uuid, serial, pci, score, score_at)
};

// Of a node that was ever accused; the others need none, so that 2,048 entries stay small.
struct NodeRecord {
  double score = 0;  // suspicion score as of score_at
  Instant score_at;
  std::uint32_t convictions = 0;  // exclusions by evidence since it was last trusted
  std::uint32_t accused = 0,
                false_ones = 0;          // exclusions by evidence ever; those that proved false
  std::string charge;                    // kind of the evidence that convicted it last
  bool hardware = false;                 // a kernel or driver confirmed that
  bool parole = false;                   // convicted, and not trusted again yet
  Duration trained{};                    // on parole: how long it has carried ranks well
  std::optional<Instant> trained_since;  // since when that is still to be added
  std::vector<GpuRecord> gpus;           // accused ones that are in it, at most kGpusKept
  STOKER_FIELDS(NodeRecord, score, score_at, convictions, accused, false_ones, charge, hardware,
                parole, trained, trained_since, gpus)
};

struct NodeEntry {
  bool usable = true;  // as the scheduler reports it
  std::string scheduler_state, scheduler_reason;
  std::vector<Evidence> evidence;  // the last kEvidenceKept, oldest first
  std::optional<Instant> excluded_until;
  std::optional<WallTime> excluded_until_wall;
  bool by_operator = false;
  bool drain_asked = false;  // by us, for the present exclusion
  std::optional<NodeRecord> record;
  STOKER_FIELDS(NodeEntry, usable, scheduler_state, scheduler_reason, evidence, excluded_until,
                excluded_until_wall, by_operator, drain_asked, record)
};

inline constexpr std::size_t kEvidenceKept = 8, kGpusKept = 16, kLossesKept = 32;
inline constexpr double kConvicts = 1, kWeak = 0.5, kLemon = 2;
inline constexpr Duration kHalfLife = 30 * 24h;

struct NodeLedger {
  SharedMap<NodeName, NodeEntry> nodes;  // that something is known about
  std::uint32_t at_least = 0;   // nodes that the site has: the largest allocation ever seen
  Instant since;                // kept since
  std::vector<Instant> losses;  // nodes convicted or called down, the last kLossesKept
  std::uint32_t accused = 0, false_ones = 0;  // as of the nodes, of all of them
  STOKER_FIELDS(NodeLedger, nodes, at_least, since, losses, accused, false_ones)
};

// How many nodes there are at least: SLURM does not tell of nodes that nothing happened to.
std::uint32_t known_nodes(const NodeLedger& ledger);

NodeHealth health_of(const NodeEntry& entry, Instant now);
std::vector<NodeName> excluded_nodes(const NodeLedger& ledger, Instant now);

// value / 2^(age / kHalfLife), linear between two halvings.
double decayed(double value, Duration age);
// The suspicion score now.
double score_of(const NodeEntry& entry, Instant now);

// Notes evidence and excludes the node if that is due. `text` says what was done, as the end of a
// sentence: "n02 is excluded for 24h", "n02 is suspect", "n02 stays in: 1 of 3 nodes are excluded
// already".
struct Noted {
  std::string text;
  bool convicted = false;
  bool broken = false;  // it is excluded, and by itself this evidence of hardware would do it
};
Noted note_evidence(NodeLedger& ledger, const NodeName& node, Evidence evidence, bool strong,
                    const RecoverPolicy& policy);
// A node went out of service: for the forecast.
void note_loss(NodeLedger& ledger, Instant now);

// Nodes on parole that carry ranks from now on; answers those for whom it is the first time since
// their exclusion.
std::vector<NodeName> watch_parole(NodeLedger& ledger, const std::vector<NodeName>& nodes,
                                   Instant now);
// At a save: what these nodes have trained since is done well. Those for whom it is as long as
// `needed` by now are trusted again.
struct Trusted {
  NodeName node;
  std::string charge;
  bool false_accusation = false;
};
std::vector<Trusted> trust_again(NodeLedger& ledger, const std::vector<NodeName>& nodes,
                                 Instant now, Duration needed);
// The accusation has proved false: included again, its score halved.
void acquit(NodeLedger& ledger, const NodeName& node);
// The GPUs that a node has now: where accused ones came from elsewhere, or are gone, as sentences.
struct GpuIdentity {
  std::string uuid, serial, pci;
};
std::vector<std::string> note_gpus(NodeLedger& ledger, const NodeName& node,
                                   const std::vector<GpuIdentity>& gpus, Instant now);

void exclude_node(NodeLedger& ledger, const NodeName& node, const Evidence& evidence,
                  Duration length);
void include_node(NodeLedger& ledger, const NodeName& node);

// The nodes a submission must avoid: `fixed` (RUN.yaml), then what operators and the ledger
// exclude, as long as `needed` usable nodes remain; when they do not, automatic exclusions are left
// out, those without accused hardware and the oldest first.
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
