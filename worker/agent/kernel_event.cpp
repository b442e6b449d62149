// Bridges diagnose's kernel-log parser to the agent's events.
#include "worker/agent/kernel_event.hpp"

#include "diagnose/kernel_line.hpp"

namespace stoker::agent {

std::optional<wire::KernelLine> kernel_event(const NodeName& node, std::string_view text) {
  const auto parsed = diagnose::parse_kernel_line(text);
  if (!parsed) return std::nullopt;
  wire::KernelLine line;
  line.node = node;
  line.event_class = name_of(parsed->event_class);
  line.text = parsed->text.substr(0, 512);
  line.xid = parsed->xid;
  line.gpu_pci = parsed->gpu_pci;
  return line;
}

}  // namespace stoker::agent
