// LiveScan: logs that are still being written, as one cause that may change with each line; what
// `stoker diagnose` would say about the lines so far, reported when it changed. Pure; one thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/cause/diagnosis.hpp"
#include "diagnose/match/log_scan.hpp"

namespace stoker::diagnose {

struct LiveSource {
  std::string name;  // as evidence quotes it
  bool kernel_log = false;
  std::string node;  // whose log it is, "" = not known
};

class LiveScan {
 public:
  explicit LiveScan(std::shared_ptr<const Detector> detector)
      : detector_(std::move(detector)), sieve_(detector_->sieve()) {}

  // Whole lines of a source; `before`: how many lines of it stand in front of them.
  void lines(const LiveSource& source, std::uint64_t before, std::string_view block);
  // Another attempt begins: what was said so far belongs to the one before.
  void forget();
  // Kernel lines of other nodes are somebody else's. Empty: all nodes are ours.
  void set_nodes(std::vector<std::string> nodes) { nodes_ = std::move(nodes); }

  // The cause, if it differs from the last one reported; `healthy` when the training outlived it.
  std::optional<Diagnosis> news();
  [[nodiscard]] std::size_t findings() const;  // that news() ranks: what it costs
  // What was reported last, for a reader that starts again there; "" = nothing.
  [[nodiscard]] const std::string& reported() const { return reported_; }
  void set_reported(std::string verdict) { reported_ = std::move(verdict); }

 private:
  [[nodiscard]] bool is_ours(const Finding& finding) const;
  std::shared_ptr<const Detector> detector_;
  LineSieve sieve_;
  std::vector<std::string> nodes_;
  std::map<std::string, std::size_t> places_;
  std::vector<std::unique_ptr<LogScanner>> scanners_;
  std::uint64_t looked_at_ = 0;  // sum of the scanners' versions
  std::string reported_;
};

}  // namespace stoker::diagnose
