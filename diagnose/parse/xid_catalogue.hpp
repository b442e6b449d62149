// XidCatalogue: what the codes of NVIDIA's driver (Xid) and of NVSwitches (SXid) mean, whose fault
// they are and what to do. Data: configs/xid/*.tsv. Codes whose line says more than the table (Xid
// 154, 144-150; SXids with their own word) are decoded from the text. To add a code or change its
// action: its row in configs/xid/xid.tsv, with the source.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "diagnose/cause/failure_class.hpp"

namespace stoker::diagnose {

struct XidMeaning {
  std::string mnemonic, meaning, note, sources;
  // "application", "driver", "hardware", "follow-up", "informational", "thermal/power", "link";
  // of an SXid: "fatal", "non-fatal", "as_printed".
  std::string origin;
  RunAction run_action = RunAction::Restart;
  NodeAction node_action = NodeAction::None;
  NodeSuspect node_suspect = NodeSuspect::No;
  bool fatal = false;  // to the program or the GPU; false: noted, the training goes on
};

class XidCatalogue {
 public:
  // Errors: a row that does not fit, named by its line.
  Status read_xids(std::string_view tsv, const std::string& file);
  Status read_sxids(std::string_view tsv, const std::string& file);

  // `text` is the line from "NVRM: Xid" or "SXid" on. An unknown code is a driver error to look at.
  [[nodiscard]] XidMeaning xid(int code, std::string_view text) const;
  [[nodiscard]] XidMeaning sxid(int code, std::string_view text) const;
  [[nodiscard]] std::size_t xids() const { return xids_.size(); }
  [[nodiscard]] std::size_t sxids() const { return sxids_.size(); }

 private:
  std::map<int, XidMeaning> xids_, sxids_;
};

}  // namespace stoker::diagnose
