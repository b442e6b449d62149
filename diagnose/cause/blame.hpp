// Blame: which nodes and ranks a cause points at. First what its own lines name; else what the
// reports of the end name first hand: torchelastic's table (rows with the root's exit code: others
// were killed afterwards) and srun's "task 3: Exited with exit code 1".
#pragma once

#include <string>
#include <vector>

#include "diagnose/match/finding.hpp"

namespace stoker::diagnose {

struct Blame {
  std::vector<std::string> nodes;    // the root's first
  std::vector<std::uint32_t> ranks;  // the root's first
};

// `line` is the line that shows `root`'s class best; `candidates` are all findings of its severity.
Blame blame_for(const Finding& root, const Finding& line,
                const std::vector<const Finding*>& candidates, const std::vector<ScannedLog>& logs);

}  // namespace stoker::diagnose
