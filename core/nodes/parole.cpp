// Ledger, after the exclusion: parole, trust, false accusations, and GPUs that were moved.
#include <algorithm>
#include <fmt/format.h>

#include "core/nodes/ledger.hpp"

namespace stoker::core {
namespace {

bool out(const NodeEntry& entry, Instant now) {
  return entry.excluded_until && *entry.excluded_until > now;
}

std::string gpu_text(const GpuRecord& gpu) {
  return fmt::format("{}{}", gpu.uuid,
                     gpu.serial.empty() ? "" : fmt::format(" (serial {})", gpu.serial));
}

// One that was taken out stays in the record of its last node, until it turns up somewhere.
bool is_in_place(const GpuRecord& gpu) {
  return !gpu.pci.empty();
}

// Adds (or takes away) what a score of `from` is worth now.
void add(NodeRecord& record, double score, Instant from, Instant now) {
  record.score =
      std::max(0.0, decayed(record.score, now - record.score_at) + decayed(score, now - from));
  record.score_at = now;
}

// The ledger is copied when it changes: hours are added, not the minutes of each save.
constexpr Duration kAddEach = 1h;

// Of those on parole that train now: whose time is to be added.
std::vector<NodeName> due_for_trust(const NodeLedger& ledger, const std::vector<NodeName>& nodes,
                                    Instant now, Duration needed) {
  std::vector<NodeName> due;
  for (const auto& [name, entry] : ledger.nodes) {
    if (!entry.record || !entry.record->trained_since) continue;
    const Duration fresh = now - *entry.record->trained_since;
    if (fresh < kAddEach && entry.record->trained + fresh < needed) continue;
    if (std::find(nodes.begin(), nodes.end(), name) != nodes.end()) due.push_back(name);
  }
  return due;
}

bool accuses_gpus(const NodeLedger& ledger, const NodeName& node) {
  const auto entry = ledger.nodes.find(node);
  return entry != ledger.nodes.end() && entry->second.record && !entry->second.record->gpus.empty();
}

}  // namespace

double decayed(double value, Duration age) {
  if (age <= 0ns) return value;
  const auto halvings = age / kHalfLife;
  if (halvings > 40) return 0;
  const double rest = static_cast<double>((age % kHalfLife).count()) /
                      static_cast<double>(Duration(kHalfLife).count());
  return value / static_cast<double>(std::uint64_t{1} << halvings) * (1 - rest / 2);
}

double score_of(const NodeEntry& entry, Instant now) {
  return entry.record ? decayed(entry.record->score, now - entry.record->score_at) : 0;
}

std::vector<NodeName> watch_parole(NodeLedger& ledger, const std::vector<NodeName>& nodes,
                                   Instant now) {
  std::vector<NodeName> watched;
  for (const NodeName& name : nodes) {
    const auto found = ledger.nodes.find(name);
    if (found == ledger.nodes.end() || !found->second.record) continue;
    const NodeRecord& record = *found->second.record;
    if (!record.parole || out(found->second, now)) continue;
    if (!record.trained_since) watched.push_back(name);
    ledger.nodes[name].record->trained_since = now;  // what was not saved is not counted
  }
  return watched;
}

std::vector<Trusted> trust_again(NodeLedger& ledger, const std::vector<NodeName>& nodes,
                                 Instant now, Duration needed) {
  std::vector<Trusted> trusted;
  for (const NodeName& name : due_for_trust(ledger, nodes, now, needed)) {
    NodeRecord& record = *ledger.nodes[name].record;
    record.trained += std::max<Duration>(now - *record.trained_since, 0ns);
    record.trained_since = now;
    if (record.trained < needed) continue;
    trusted.push_back({name, record.charge, !record.hardware});
    record.parole = false;
    record.trained = {};
    record.trained_since.reset();
    record.convictions = 0;
    if (record.hardware) continue;  // it was true, and has been repaired
    ++record.false_ones;
    ++ledger.false_ones;
    record.score = decayed(record.score, now - record.score_at) / 2;
    record.score_at = now;
  }
  return trusted;
}

void acquit(NodeLedger& ledger, const NodeName& node) {
  const auto found = ledger.nodes.find(node);
  if (found == ledger.nodes.end() || !found->second.record) return;
  NodeEntry& entry = ledger.nodes[node];
  NodeRecord& record = *entry.record;
  if (!entry.by_operator) {
    entry.excluded_until.reset();
    entry.excluded_until_wall.reset();
  }
  record.parole = false;
  record.trained = {};
  record.trained_since.reset();
  record.convictions = 0;
  record.score /= 2;
  ++record.false_ones;
  ++ledger.false_ones;
}

std::vector<std::string> note_gpus(NodeLedger& ledger, const NodeName& node,
                                   const std::vector<GpuIdentity>& gpus, Instant now) {
  std::vector<std::string> news;
  if (gpus.empty()) return news;
  const auto here = [&](const GpuRecord& gpu) {
    return std::find_if(gpus.begin(), gpus.end(),
                        [&](const GpuIdentity& g) { return g.uuid == gpu.uuid; });
  };
  if (accuses_gpus(ledger, node)) {
    NodeRecord& record = *ledger.nodes[node].record;
    for (GpuRecord& gpu : record.gpus) {
      const auto seen = here(gpu);
      if ((seen != gpus.end()) == is_in_place(gpu)) continue;
      const bool back = seen != gpus.end();
      add(record, back ? gpu.score : -gpu.score, gpu.score_at, now);
      gpu.pci = back ? seen->pci : "";
      news.push_back(fmt::format("{}, which was accused, is {} {}", gpu_text(gpu),
                                 back ? "back in" : "no longer in", node.text));
    }
  }
  std::vector<GpuRecord> moved;
  std::vector<NodeName> others;
  for (const auto& [name, entry] : ledger.nodes)
    if (name != node && accuses_gpus(ledger, name)) others.push_back(name);
  for (const NodeName& name : others) {
    NodeRecord& record = *ledger.nodes[name].record;
    std::erase_if(record.gpus, [&](GpuRecord& gpu) {
      const auto seen = here(gpu);
      if (seen == gpus.end()) return false;
      news.push_back(
          fmt::format("{}, accused in {}, is in {} now", gpu_text(gpu), name.text, node.text));
      if (is_in_place(gpu)) add(record, -gpu.score, gpu.score_at, now);
      gpu.pci = seen->pci;
      moved.push_back(gpu);
      return true;
    });
  }
  for (const GpuRecord& gpu : moved) {
    NodeEntry& entry = ledger.nodes[node];
    if (!entry.record) entry.record.emplace();
    add(*entry.record, gpu.score, gpu.score_at, now);
    entry.record->gpus.push_back(gpu);
    if (entry.record->gpus.size() > kGpusKept) entry.record->gpus.erase(entry.record->gpus.begin());
  }
  return news;
}

}  // namespace stoker::core
