// Node ledger: evidence in, exclusions out; capped, and lifted where a run could not start at all.
#include "core/nodes/ledger.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

#include "core/sentence.hpp"

namespace stoker::core {
namespace {

constexpr Duration kSuspectFor = 24h;
constexpr std::uint32_t kWeakLimit = 2;  // weak evidence of one kind within kSuspectFor
constexpr Duration kEcho = 10min;        // one fault, reported by every GPU's line and by NVML too
constexpr std::uint32_t kDoublings = 5;  // of an exclusion: 32 times

bool contains(const std::vector<NodeName>& nodes, const NodeName& node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

// The kernel's or the driver's word, not only what the training made of it.
bool is_hardware(const Evidence& evidence) {
  return evidence.kind == "xid" || evidence.kind == "sxid" ||
         evidence.kind == "gpu_fallen_off_bus" || !evidence.gpu_uuid.empty();
}

bool is_excluded(const NodeEntry& entry, Instant now) {
  return entry.excluded_until && *entry.excluded_until > now;
}

bool counts_against_cap(const NodeEntry& entry, Instant now) {
  return is_excluded(entry, now) && !entry.by_operator;
}

bool has_bad_hardware(const NodeEntry& entry) {
  return entry.record && entry.record->hardware;
}

// Of the nodes that count against the cap the least suspect one, unless its hardware is accused as
// well: it may return, on parole, for one whose hardware is. "" = none.
NodeName least_suspect(const NodeLedger& ledger, Instant now) {
  NodeName least;
  double lowest = 0;
  for (const auto& [name, entry] : ledger.nodes) {
    if (!counts_against_cap(entry, now) || has_bad_hardware(entry)) continue;
    const double score = score_of(entry, now);
    if (!least.empty() && score >= lowest) continue;
    least = name;
    lowest = score;
  }
  return least;
}

void end_exclusion(NodeEntry& entry) {
  entry.excluded_until.reset();
  entry.excluded_until_wall.reset();
}

void keep_evidence(NodeEntry& entry, const Evidence& evidence) {
  entry.evidence.push_back(evidence);
  if (entry.evidence.size() > kEvidenceKept) entry.evidence.erase(entry.evidence.begin());
}

// Words of the kernel or the driver about one fault come several at a time, and so do those about
// one kill: two lines, and more where a whole cgroup is killed.
bool is_echo(const NodeEntry& entry, const Evidence& evidence) {
  if (!is_hardware(evidence) && evidence.kind != "oom_kill") return false;
  return std::any_of(entry.evidence.begin(), entry.evidence.end(), [&](const Evidence& e) {
    return e.kind == evidence.kind && e.weight != 0 && e.at + kEcho > evidence.at;
  });
}

GpuRecord& gpu_record(NodeRecord& record, const Evidence& evidence) {
  for (GpuRecord& gpu : record.gpus)
    if (gpu.uuid == evidence.gpu_uuid) return gpu;
  if (record.gpus.size() >= kGpusKept) record.gpus.erase(record.gpus.begin());
  record.gpus.push_back({evidence.gpu_uuid, evidence.gpu_serial, evidence.gpu_pci, 0, evidence.at});
  return record.gpus.back();
}

double add_score(NodeEntry& entry, const Evidence& evidence) {
  if (!entry.record) entry.record.emplace();
  NodeRecord& record = *entry.record;
  record.score = decayed(record.score, evidence.at - record.score_at) + evidence.weight;
  record.score_at = evidence.at;
  if (!evidence.gpu_uuid.empty()) {
    GpuRecord& gpu = gpu_record(record, evidence);
    gpu.score = decayed(gpu.score, evidence.at - gpu.score_at) + evidence.weight;
    gpu.score_at = evidence.at;
  }
  return record.score;
}

Duration convict(NodeLedger& ledger, NodeEntry& entry, const Evidence& evidence, Duration first) {
  NodeRecord& record = *entry.record;
  const Duration length = first * (1u << std::min(record.convictions, kDoublings));
  ++record.convictions;
  ++record.accused;
  ++ledger.accused;
  record.charge = evidence.kind;
  record.hardware = is_hardware(evidence);
  record.parole = true;
  record.trained = {};
  record.trained_since.reset();
  entry.excluded_until = evidence.at + length;
  entry.excluded_until_wall = evidence.wall + length;
  entry.by_operator = entry.drain_asked = false;
  note_loss(ledger, evidence.at);
  return length;
}

}  // namespace

std::uint32_t known_nodes(const NodeLedger& ledger) {
  return std::max(ledger.at_least, static_cast<std::uint32_t>(ledger.nodes.size()));
}

NodeHealth health_of(const NodeEntry& entry, Instant now) {
  if (!entry.usable) return NodeHealth::Down;
  if (is_excluded(entry, now)) return NodeHealth::Excluded;
  for (const Evidence& e : entry.evidence)
    if (e.kind != "operator" && e.weight != 0 && e.at + kSuspectFor > now)
      return NodeHealth::Suspect;
  return NodeHealth::Ok;
}

std::vector<NodeName> excluded_nodes(const NodeLedger& ledger, Instant now) {
  std::vector<NodeName> result;
  for (const auto& [name, entry] : ledger.nodes)
    if (is_excluded(entry, now)) result.push_back(name);
  return result;
}

void exclude_node(NodeLedger& ledger, const NodeName& node, const Evidence& evidence,
                  Duration length) {
  NodeEntry& entry = ledger.nodes[node];
  entry.excluded_until = evidence.at + length;
  entry.excluded_until_wall = evidence.wall + length;
  entry.by_operator = evidence.kind == "operator";
  keep_evidence(entry, evidence);
}

void include_node(NodeLedger& ledger, const NodeName& node) {
  NodeEntry& entry = ledger.nodes[node];
  end_exclusion(entry);
  entry.by_operator = false;
  entry.evidence.clear();
}

Noted note_evidence(NodeLedger& ledger, const NodeName& node, Evidence evidence, bool strong,
                    const RecoverPolicy& policy) {
  const Instant now = evidence.at;
  NodeEntry& entry = ledger.nodes[node];
  if (ledger.since == Instant{}) ledger.since = now;
  if (evidence.weight < 0) evidence.weight = strong ? kConvicts : kWeak;
  if (evidence.weight < kConvicts && is_echo(entry, evidence)) evidence.weight = 0;
  strong = evidence.weight >= kConvicts;
  std::uint32_t same = 1;
  for (const Evidence& e : entry.evidence)
    if (e.kind == evidence.kind && e.weight != 0 && e.at + kSuspectFor > now) ++same;
  keep_evidence(entry, evidence);
  if (evidence.weight == 0)
    return {fmt::format("{} is not suspected for it{}", node.text,
                        health_of(entry, now) == NodeHealth::Suspect ? " again" : ""),
            false};
  const double score = add_score(entry, evidence);
  const bool broken = strong && is_hardware(evidence);
  if (is_excluded(entry, now)) {
    if (broken) entry.record->hardware = true;  // confirms what it was excluded for
    return {fmt::format("{} is excluded already", node.text), false, broken};
  }
  const bool lemon = score >= kLemon;
  const bool again = entry.record->parole;
  if (!strong && same < kWeakLimit && !lemon && !again)
    return {fmt::format("{} is suspect", node.text), false};

  std::uint32_t automatic = 0;
  for (const auto& [name, other] : ledger.nodes)
    if (counts_against_cap(other, now)) ++automatic;
  const std::uint32_t known = known_nodes(ledger);
  const auto cap =
      std::max<std::uint32_t>(1, static_cast<std::uint32_t>(known * policy.exclude_at_most));
  NodeName in_its_place;
  if (automatic >= cap) {
    if (broken) in_its_place = least_suspect(ledger, now);
    if (in_its_place.empty())
      return {fmt::format("{} is not excluded: {} of {} nodes are excluded already, the maximum",
                          node.text, automatic, known),
              false};
    end_exclusion(ledger.nodes[in_its_place]);
  }
  const Duration length = convict(ledger, entry, evidence, policy.exclude_for);
  std::string why;
  if (again)
    why = fmt::format(", {} times the first duration: it was on parole",
                      length / std::max<Duration>(policy.exclude_for, 1ns));
  else if (!strong && same >= kWeakLimit)
    why = fmt::format(", after {} {} within a day", same, failures_text(evidence.kind));
  else if (!strong)
    why = fmt::format(", its suspicion score is {:.2f} (limit {:.0f})", score, kLemon);
  if (!in_its_place.empty())
    why += fmt::format(
        "; {} returns on parole for it, whose hardware is not accused: {} of {} nodes are the "
        "maximum",
        in_its_place.text, automatic, known);
  return {fmt::format("{} is excluded for {}{}", node.text, format_duration(length), why), true,
          broken};
}

void note_loss(NodeLedger& ledger, Instant now) {
  if (ledger.since == Instant{}) ledger.since = now;
  ledger.losses.push_back(now);
  if (ledger.losses.size() > kLossesKept) ledger.losses.erase(ledger.losses.begin());
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
  std::vector<std::tuple<bool, Instant, NodeName>> automatic;
  for (const auto& [name, entry] : ledger.nodes) {
    if (!is_excluded(entry, now) || contains(result, name)) continue;
    if (entry.by_operator)
      result.push_back(name);
    else
      automatic.emplace_back(has_bad_hardware(entry), *entry.excluded_until, name);
  }
  // Bad hardware first, then the newest evidence: what does not fit any more is the oldest.
  std::sort(automatic.begin(), automatic.end(), std::greater<>());
  const bool cluster_known = ledger.nodes.size() >= needed;
  for (const auto& [hardware, until, name] : automatic) {
    std::vector<NodeName> more = result;
    more.push_back(name);
    if (!cluster_known || usable_nodes(ledger, more) >= needed) result = std::move(more);
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace stoker::core
