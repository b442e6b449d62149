// The report of a run: one HTML file without scripts or links to elsewhere, made from what the
// daemon published. Pure. Totals are those of status.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/publish/history.hpp"
#include "wire/status.hpp"

namespace stoker::cli::postmortem {

inline constexpr std::size_t kMostBytes = 2u << 20;

struct LossAt {
  std::uint64_t samples = 0, iteration = 0;
  double loss = 0;
};

// All that is known of one run.
struct Source {
  wire::StatusDocument status;
  core::History history;
  std::vector<LossAt> losses;              // surviving line, in order
  std::vector<std::string> builds;         // of the daemons that looked after it
  Json policy;                             // secrets hidden; null: not known
  std::vector<wire::PublishedNode> nodes;  // of the site, those this run has something to do with
  std::optional<WallTime> first;           // of its first event
  std::size_t unreadable = 0;              // events
};

std::string report_html(const Source& run, const std::optional<Source>& against, WallTime now);

// Losses of two runs at the same place of the data: consumed samples where both tell them, else
// iterations. At most `most` pairs; `by_samples`: which clock it is.
struct LossPair {
  double at = 0, ours = 0, theirs = 0;
};
struct SameLosses {
  bool by_samples = false;
  std::vector<LossPair> pairs;
};
SameLosses same_losses(const std::vector<LossAt>& ours, const std::vector<LossAt>& theirs,
                       std::size_t most = 400);

}  // namespace stoker::cli::postmortem
