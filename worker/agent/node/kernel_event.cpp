// Bridges diagnose's kernel-log parser to the agent's events.
#include "worker/agent/node/kernel_event.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <unistd.h>

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

// Adds the catalogue's facts about an Xid. True: by them a program is at fault.
bool ask_catalogue(wire::KernelLine& line) {
  if (line.event_class != "xid" || !line.xid) return false;
  const auto at = line.text.find("NVRM: Xid");
  const auto meaning = catalogue().xid(
      *line.xid, at == std::string::npos ? "" : std::string_view(line.text).substr(at));
  line.node_suspect = meaning.node_suspect;
  line.node_action = meaning.node_action;
  return meaning.origin == "application";
}

// `id` in the numbers of the namespace that ours is in. Empty: it has none there.
std::optional<std::uint32_t> outer_id(std::uint32_t id) {
  std::ifstream map("/proc/self/uid_map");
  std::uint64_t inside = 0, outside = 0, count = 0;
  while (map >> inside >> outside >> count)
    if (id >= inside && id - inside < count)
      return static_cast<std::uint32_t>(outside + (id - inside));
  return std::nullopt;
}

// The kernel's lines have the numbers of the first namespace of processes.
bool in_first_namespace() {
  char link[64];
  const ssize_t length = ::readlink("/proc/self/ns/pid", link, sizeof link);
  return std::string_view(link, static_cast<std::size_t>(std::max<ssize_t>(length, 0))) ==
         "pid:[4026531836]";
}

std::optional<std::uint32_t> owner_of(std::int64_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  std::string line;
  while (std::getline(status, line)) {
    if (!line.starts_with("Uid:")) continue;
    std::istringstream ids(line.substr(4));
    std::uint32_t real = 0;
    if (ids >> real) return outer_id(real);
  }
  return std::nullopt;
}

bool is_ours(std::int64_t pid, const Owners& owners) {
  return owners.of && owners.of(pid) == owners.ours;
}

// False: it is another user's, and nothing to report.
bool weigh_task(const diagnose::KernelEvent& event, const Owners& owners, wire::KernelLine& line) {
  const bool killed = event.event_class == diagnose::KernelClass::OomKill;
  auto owner = event.uid;
  if (!owner && event.pid && owners.of) owner = owners.of(*event.pid);
  if (killed && owner && *owner != owners.ours) return false;
  const bool counts = owner && (*owner == owners.ours || (!killed && *owner == 0));
  line.node_suspect = counts ? NodeSuspect::IfRepeated : NodeSuspect::No;
  return true;
}

}  // namespace

Owners owners() {
  const auto us = static_cast<std::uint32_t>(::geteuid());
  Owners known{outer_id(us).value_or(us), nullptr};
  if (in_first_namespace()) known.of = owner_of;
  return known;
}

std::optional<wire::KernelLine> kernel_event(const NodeName& node, std::string_view text,
                                             const Owners& owners) {
  const auto parsed = diagnose::parse_kernel_message(text);
  if (!parsed) return std::nullopt;
  wire::KernelLine line;
  line.node = node;
  line.event_class = name_of(parsed->event_class);
  line.text = parsed->text.substr(0, 512);
  line.xid = parsed->xid;
  line.gpu_pci = parsed->gpu_pci;
  // A program's fault on a shared node speaks against the node only if the program was ours.
  if (ask_catalogue(line) && parsed->pid && !is_ours(*parsed->pid, owners))
    line.node_suspect = NodeSuspect::No;
  const bool killed = parsed->event_class == diagnose::KernelClass::OomKill;
  const bool stuck = parsed->event_class == diagnose::KernelClass::HungTask && parsed->pid;
  if ((killed || stuck) && !weigh_task(*parsed, owners, line)) return std::nullopt;
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
