// Bridges diagnose's kernel-log parser to the agent's events.
#include "worker/agent/node/kernel_event.hpp"

#include "common/check.hpp"
#include "diagnose/embedded_data.hpp"
#include "diagnose/parse/kernel_line.hpp"
#include "diagnose/parse/xid_catalogue.hpp"

namespace stoker::agent {
namespace {

const diagnose::XidCatalogue& catalogue() {
  static const diagnose::XidCatalogue known = [] {
    diagnose::XidCatalogue xids;
    for (const auto& file : diagnose::embedded_files())
      if (const std::string name(file.name); name == "configs/xid/xid.tsv")
        STOKER_CHECK(xids.read_xids(file.text, name).has_value(), "the Xid catalogue");
    return xids;
  }();
  return known;
}

void ask_catalogue(wire::KernelLine& line) {
  if (line.event_class != "xid" || !line.xid) return;
  const auto at = line.text.find("NVRM: Xid");
  const auto meaning = catalogue().xid(
      *line.xid, at == std::string::npos ? "" : std::string_view(line.text).substr(at));
  line.node_suspect = meaning.node_suspect;
  line.node_action = meaning.node_action;
}

}  // namespace

std::optional<wire::KernelLine> kernel_event(const NodeName& node, std::string_view text) {
  const auto parsed = diagnose::parse_kernel_line(text);
  if (!parsed) return std::nullopt;
  wire::KernelLine line;
  line.node = node;
  line.event_class = name_of(parsed->event_class);
  line.text = parsed->text.substr(0, 512);
  line.xid = parsed->xid;
  line.gpu_pci = parsed->gpu_pci;
  ask_catalogue(line);
  return line;
}

wire::KernelLine xid_event(const NodeName& node, int xid, const std::string& text) {
  wire::KernelLine line;
  line.node = node;
  line.event_class = "xid";
  line.text = text;
  line.xid = xid;
  ask_catalogue(line);
  return line;
}

}  // namespace stoker::agent
