// From what agents and detectors say to the ledger.
#include "core/nodes/accuse.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/nodes/drain.hpp"
#include "core/nodes/node_view.hpp"
#include "core/sentence.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core {
namespace {

constexpr Duration kTrustAfter = 24h;      // of training, on parole
constexpr std::size_t kNameKept = 96;      // NVML's own limit
constexpr std::size_t kWordsKept = 400;    // of a training's sentence
constexpr std::size_t kTooManyGuilty = 2;  // one fault does not sit in so many nodes

// What the agent says: of an Xid the catalogue's word, of a task whether it was the run's own.
// Where it says nothing: NVIDIA, "Xid Errors", r555; a kill that may be another user's proves
// nothing.
double weight_of(const wire::KernelLine& e) {
  if (const auto& suspect = e.node_suspect.get()) switch (*suspect) {
      case NodeSuspect::Yes: return kConvicts;
      case NodeSuspect::IfRepeated: return kWeak;
      case NodeSuspect::No: return 0;
    }
  if (e.event_class == "oom_kill") return 0;
  if (e.event_class != "xid" || !e.xid) return kWeak;
  constexpr int kFatal[] = {48, 74, 79, 94, 95, 119};
  return std::find(std::begin(kFatal), std::end(kFatal), *e.xid) != std::end(kFatal) ? kConvicts
                                                                                     : kWeak;
}

// Ranks lie in blocks on the nodes of an attempt.
std::vector<NodeName> nodes_of_ranks(const LiveGeneration& live, const std::vector<Rank>& ranks) {
  std::vector<NodeName> nodes;
  const std::size_t count = live.attempt_nodes.size();
  if (count == 0 || live.world_size == 0 || live.world_size % count != 0) return nodes;
  for (const Rank rank : ranks) {
    if (rank.value >= live.world_size) continue;
    const NodeName& node = live.attempt_nodes[rank.value / (live.world_size / count)];
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }
  return nodes;
}

}  // namespace

Evidence evidence_of(const Turn& turn, std::string kind, std::string text) {
  Evidence evidence;
  evidence.at = turn.now();
  evidence.wall = turn.event.wall;
  evidence.run = turn.name();
  evidence.kind = std::move(kind);
  evidence.text = std::move(text);
  return evidence;
}

std::string accuse_node(Turn& turn, const NodeName& node, Evidence evidence, bool strong) {
  const std::string kind = evidence.kind;
  const Noted noted =
      note_evidence(turn.site.ledger, node, std::move(evidence), strong, turn.r().policy.recover);
  std::string text = noted.text;
  if (noted.broken && drain_broken(turn, node, turn.site.ledger.nodes.at(node).evidence.back()))
    text += "; it is to be drained";
  if (!noted.convicted) return text;
  auto& accused = turn.r().recovery.accused;
  if (std::find(accused.begin(), accused.end(), node) == accused.end()) accused.push_back(node);
  const NodeEntry& entry = turn.site.ledger.nodes.at(node);
  raise(turn, {Severity::Warning, "node_convicted", fmt::format("{} ({})", noted.text, kind),
               fmt::format("stoker nodes --report {}", node.text), node.text,
               node_report(published_node(node, entry, turn.now()))});
  return text;
}

void begin_parole(Turn& turn, const std::vector<NodeName>& nodes) {
  const auto watched = watch_parole(turn.site.ledger, nodes, turn.now());
  if (watched.empty()) return;
  turn.say(
      fmt::format("{} on parole: {} first start since the exclusion is watched, the next sign "
                  "doubles it",
                  watched.size() == 1 ? watched.front().text + " is" : nodes_text(watched) + " are",
                  watched.size() == 1 ? "its" : "their"));
  for (const NodeName& node : watched) resolve(turn, "node_convicted", node.text);
}

void end_parole(Turn& turn) {
  const RunState& run = turn.r();
  if (!run.live) return;
  for (const Trusted& t :
       trust_again(turn.site.ledger, run.live->attempt_nodes, turn.now(), kTrustAfter)) {
    turn.say(fmt::format(
        "{} trained well for {}: it is trusted again{}", t.node.text, format_duration(kTrustAfter),
        t.false_accusation
            ? fmt::format(", so the exclusion ({}) counts as a false positive", t.charge)
            : ""));
    resolve(turn, "node_convicted", t.node.text);
  }
}

std::string acquit_accused(Turn& turn, const std::vector<NodeName>& named) {
  RunState& run = turn.r();
  std::vector<NodeName> freed;
  if (run.recovery.accused.size() < kTooManyGuilty ||
      run.recovery.budget.without_progress <= kTooManyGuilty)
    return "";
  for (const NodeName& node : run.recovery.accused) {
    const auto entry = turn.site.ledger.nodes.find(node);
    const bool before = std::find(named.begin(), named.end(), node) == named.end();
    if (!before || entry == turn.site.ledger.nodes.end() || !entry->second.record ||
        entry->second.record->hardware)
      continue;
    acquit(turn.site.ledger, node);
    freed.push_back(node);
    resolve(turn, "node_convicted", node.text);
  }
  if (freed.empty()) return "";
  std::erase_if(run.recovery.accused, [&](const NodeName& node) {
    return std::find(freed.begin(), freed.end(), node) != freed.end();
  });
  return fmt::format(
      "; it fails on without {}, so they were not the cause: included again, counted as a false "
      "positive",
      nodes_text(freed));
}

void on_kernel_line(Turn& turn, const wire::KernelLine& e) {
  Evidence evidence = evidence_of(turn, e.event_class, e.text);
  evidence.weight = weight_of(e);
  evidence.gpu_uuid = e.gpu_uuid.substr(0, kNameKept);
  evidence.gpu_serial = e.gpu_serial.substr(0, kNameKept);
  evidence.gpu_pci = e.gpu_pci.substr(0, kNameKept);
  evidence.action = e.node_action;
  const bool fatal = evidence.weight >= kConvicts;
  const bool accused = evidence.weight > 0;
  turn.say(fmt::format("kernel of {}: {}", e.node.text, e.text));
  turn.say(accuse_node(turn, e.node, std::move(evidence), fatal));
  if (accused)
    raise(turn, {fatal ? Severity::Critical : Severity::Warning, "node_fault",
                 fmt::format("{}: {}", e.node.text, e.text),
                 fmt::format("stoker nodes {}", turn.name().text), e.node.text});
  if (fatal) supply::update_exclusions(turn);
}

// A computation that another node makes differently, twice alike, is the hardware's; a copy that
// differs may be a program's fault as well.
void on_numbers_differ(Turn& turn, const wire::NumbersDiffer& e) {
  RunState& run = turn.r();
  const bool replay = e.check == "replay";
  const std::vector<NodeName> nodes = nodes_of_ranks(*run.live, e.ranks);
  turn.say(fmt::format("{} at iteration {}: {}{}{}",
                       replay ? "a micro-batch that was computed again came out differently"
                              : "copies of a tensor differ",
                       e.iteration.value, e.what.substr(0, kWordsKept),
                       nodes.empty() ? "" : fmt::format(" ({})", nodes_text(nodes)),
                       e.repaired ? "; repaired, the training goes on" : ""));
  const bool one = e.outvoted && nodes.size() == 1;
  for (const NodeName& node : nodes) {
    Evidence evidence = evidence_of(turn, "numbers_differ", e.what.substr(0, kWordsKept));
    evidence.weight = !one ? 0 : replay ? kConvicts : kWeak;
    turn.say(accuse_node(turn, node, std::move(evidence), one && replay));
  }
  raise(turn, {e.repaired ? Severity::Warning : Severity::Critical, "numbers_differ",
               fmt::format("{}: {} at iteration {}", turn.name().text, e.what.substr(0, kWordsKept),
                           e.iteration.value),
               fmt::format("stoker nodes {}", turn.name().text), ""});
  if (one && replay) supply::update_exclusions(turn);
}

std::string health_sources_text(const wire::HealthSources& e) {
  std::string works, fails;
  for (const wire::HealthSource& source : e.sources) {
    std::string& text = source.works ? works : fails;
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", source.name, source.detail);
  }
  return fmt::format("{} health sources: {}{}", e.node.text, works.empty() ? "none" : works,
                     fails.empty() ? "" : "; unavailable: " + fails);
}

void on_health_sources(Turn& turn, const wire::HealthSources& e) {
  turn.say(health_sources_text(e));
  std::vector<GpuIdentity> gpus;
  for (const wire::GpuName& gpu : e.gpus)
    if (!gpu.uuid.empty()) gpus.push_back({gpu.uuid, gpu.serial, gpu.pci});
  for (const std::string& news : note_gpus(turn.site.ledger, e.node, gpus, turn.now()))
    turn.say(news);
}

}  // namespace stoker::core
