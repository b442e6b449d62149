// Tab separated rows: code, name, meaning, origin (SXid: fatal), action, node_suspect, note,
// sources; '#' lines are comments and the first row is the header.
#include "diagnose/parse/xid_catalogue.hpp"

#include <charconv>
#include <fmt/format.h>
#include <functional>
#include <optional>
#include <vector>

namespace stoker::diagnose {

namespace {

constexpr std::size_t kColumns = 8;

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find(by);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

struct Does {
  std::string_view word;
  RunAction run;
  NodeAction node;
};
constexpr Does kActions[] = {
    {"none", RunAction::None, NodeAction::None},
    {"restart_app", RunAction::Restart, NodeAction::None},
    {"reset_gpu", RunAction::RestartExcluding, NodeAction::ResetGpu},
    {"reboot_node", RunAction::RestartExcluding, NodeAction::Reboot},
    {"drain_node", RunAction::RestartExcluding, NodeAction::Drain},
    {"rma_check", RunAction::RestartExcluding, NodeAction::Rma},
    {"contact", RunAction::Restart, NodeAction::Drain},
};

bool set_action(XidMeaning& meaning, std::string_view word) {
  for (const auto& action : kActions) {
    if (action.word != word) continue;
    meaning.run_action = action.run;
    meaning.node_action = action.node;
    return true;
  }
  return false;
}

Status read_rows(std::string_view tsv, const std::string& file,
                 const std::function<void(int, XidMeaning)>& take) {
  int number = 0;
  bool header = true;
  for (const auto line : split(tsv, '\n')) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    if (header) {
      header = false;
      continue;
    }
    const auto cells = split(line, '\t');
    const std::string where = fmt::format("{}:{}", file, number);
    if (cells.size() != kColumns) return fail("a row must have 8 columns", where);
    int code = 0;
    if (std::from_chars(cells[0].data(), cells[0].data() + cells[0].size(), code).ec != std::errc{})
      return fail("the code is no number", where);
    XidMeaning m;
    m.mnemonic = cells[1];
    m.meaning = cells[2];
    m.origin = cells[3];
    if (!set_action(m, cells[4])) return fail("unknown action", where);
    const auto suspect = enum_from<NodeSuspect>(cells[5]);
    if (!suspect) return fail("node_suspect must be no, if_repeated or yes", where);
    m.node_suspect = *suspect;
    m.note = cells[6];
    m.sources = cells[7];
    take(code, std::move(m));
  }
  return ok();
}

bool has(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

// "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)".
void decode_recovery_action(XidMeaning& m, std::string_view text) {
  const auto to = text.find(" to 0x");
  if (to == std::string_view::npos) return;
  const std::string_view action = text.substr(to);
  m.node_suspect = NodeSuspect::Yes;
  if (has(action, "0x1 ") || has(action, "GPU Reset")) set_action(m, "reset_gpu");
  if (has(action, "0x2 ") || has(action, "Node Reboot")) set_action(m, "reboot_node");
  if (has(action, "0x3 ") || has(action, "0x4 ") || has(action, "Drain"))
    set_action(m, "drain_node");
  if (has(action, "0x0 ") || has(action, "(None)")) {
    set_action(m, "none");
    m.node_suspect = NodeSuspect::No;
  }
}

// Blackwell's NVLink codes 144-150 say in the line whether they are fatal: "NETIR_LINK_EVT  Fatal".
void decode_nvlink5(XidMeaning& m, std::string_view text) {
  if (!has(text, "Nonfatal") && !has(text, "Non-fatal")) return;
  set_action(m, "none");
  m.fatal = false;
  m.node_suspect = NodeSuspect::IfRepeated;
}

}  // namespace

Status XidCatalogue::read_xids(std::string_view tsv, const std::string& file) {
  return read_rows(tsv, file, [this](int code, XidMeaning m) {
    // What the driver or the GPU notes by the way does not end a program; a program's own fault
    // does, also where nothing needs to be done about the GPU (13, 31, 43).
    m.fatal = m.origin != "informational" && m.origin != "follow-up" &&
              (m.run_action != RunAction::None || m.origin == "application");
    xids_[code] = std::move(m);
  });
}

Status XidCatalogue::read_sxids(std::string_view tsv, const std::string& file) {
  return read_rows(tsv, file, [this](int code, XidMeaning m) {
    m.fatal = m.origin == "fatal";
    sxids_[code] = std::move(m);
  });
}

XidMeaning XidCatalogue::xid(int code, std::string_view text) const {
  const auto known = xids_.find(code);
  if (known == xids_.end()) {
    XidMeaning unknown;
    unknown.meaning = "a code that no catalogue of ours has";
    unknown.origin = "driver";
    unknown.fatal = true;
    unknown.node_suspect = NodeSuspect::IfRepeated;
    return unknown;
  }
  XidMeaning m = known->second;
  if (code == 154) decode_recovery_action(m, text);
  if (code >= 144 && code <= 150) decode_nvlink5(m, text);
  return m;
}

XidMeaning XidCatalogue::sxid(int code, std::string_view text) const {
  const auto known = sxids_.find(code);
  XidMeaning m;
  if (known != sxids_.end()) {
    m = known->second;
  } else {
    m.meaning = "a switch code that no catalogue of ours has";
    m.origin = "as_printed";
    m.node_suspect = NodeSuspect::IfRepeated;
  }
  if (m.origin == "as_printed") m.fatal = has(text, ", Fatal");
  return m;
}

}  // namespace stoker::diagnose
