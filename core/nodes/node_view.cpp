// Nodes in words.
#include "core/nodes/node_view.hpp"

#include <fmt/format.h>

namespace stoker::core {
namespace {

// NVIDIA's words for the repair, as the Xid catalogue has them.
std::string advice_text(const OptionalName<NodeAction>& asked) {
  switch (asked.get().value_or(NodeAction::None)) {
    case NodeAction::ResetGpu: return "drain it and reset the GPU";
    case NodeAction::Reboot: return "drain and reboot it";
    case NodeAction::Drain: return "drain it and run the vendor's diagnostics";
    case NodeAction::Rma: return "drain it; the GPU may have to be replaced";
    case NodeAction::None: break;
  }
  return "read its kernel log and run the vendor's diagnostics before it is used again";
}

}  // namespace

wire::PublishedNode published_node(const NodeName& name, const NodeEntry& entry, Instant now) {
  wire::PublishedNode node;
  node.node = name.text;
  node.state = stoker::name_of(health_of(entry, now));
  if (entry.excluded_until && *entry.excluded_until > now)  // also where the scheduler has it down
    node.excluded_until = format_rfc3339(*entry.excluded_until_wall);
  if (!entry.usable)
    node.evidence.push_back(fmt::format(
        "the scheduler says {}{}", entry.scheduler_state,
        entry.scheduler_reason.empty() ? "" : fmt::format(": {}", entry.scheduler_reason)));
  for (const Evidence& e : entry.evidence) {
    node.evidence.push_back(fmt::format("{} {}: {}", format_rfc3339(e.wall), e.kind, e.text));
    if (e.action.get().value_or(NodeAction::None) != NodeAction::None) node.advice = e.action;
  }
  if (!entry.record) return node;
  const NodeRecord& record = *entry.record;
  node.score = score_of(entry, now);
  node.parole = record.parole && node.state != "excluded";
  node.accused = record.accused;
  node.falsely = record.false_ones;
  for (const GpuRecord& gpu : record.gpus)
    if (!gpu.pci.empty())  // it is still there
      node.gpus.push_back({gpu.uuid, gpu.serial, gpu.pci, decayed(gpu.score, now - gpu.score_at)});
  return node;
}

std::vector<wire::PublishedNode> nodes_of(const SiteState& state, Instant now) {
  std::vector<wire::PublishedNode> result;
  for (const auto& [name, entry] : state.ledger.nodes)
    result.push_back(published_node(name, entry, now));
  return result;
}

std::string state_text(const wire::PublishedNode& node) {
  if (!node.excluded_until) return node.state;
  const std::string excluded = "excluded until " + *node.excluded_until;
  return node.state == "excluded" ? excluded : node.state + "; " + excluded;
}

std::string node_report(const wire::PublishedNode& node) {
  std::string text = fmt::format("Node {}: please examine it\n\n", node.node);
  if (node.excluded_until)
    text += fmt::format("Training runs go without it until {}.\n", *node.excluded_until);
  else
    text += fmt::format("Its state in the node ledger of the training runs: {}{}.\n", node.state,
                        node.parole ? ", on parole" : "");
  text += fmt::format("Asked for: {}.\n", advice_text(node.advice));
  for (const wire::PublishedGpu& gpu : node.gpus)
    text += fmt::format("GPU: PCI {}, serial {}, {}\n", gpu.pci.empty() ? "unknown" : gpu.pci,
                        gpu.serial.empty() ? "unknown" : gpu.serial, gpu.uuid);
  if (node.gpus.empty()) text += "GPU: unknown from the evidence\n";
  text += "\nEvidence, as it was logged (UTC), oldest first:\n";
  for (const std::string& line : node.evidence) text += "  " + line + "\n";
  if (node.evidence.empty()) text += "  none on record\n";
  text += fmt::format(
      "\nExcluded for evidence {} {} so far, {} of them proved false; suspicion score {:.2f} (each "
      "sign "
      "counts up to 1, half after 30 days; 2 excludes).\n",
      node.accused, node.accused == 1 ? "time" : "times", node.falsely, node.score);
  return text;
}

}  // namespace stoker::core
