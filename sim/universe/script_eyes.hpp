// ScriptEyes: the logs of a run without agents as the daemon's host shows them, folded by what the
// daemon folds them with. It forgets all but its cursor with its daemon.
#pragma once

#include <vector>

#include "sim/training/script_jobs.hpp"
#include "watch/script_beats.hpp"

namespace stoker::sim {

class ScriptEyes {
 public:
  ScriptEyes(const core::RunPolicy& policy, std::uint64_t total, Guard broken)
      : policy_(policy), total_(total), broken_(broken), beats_(policy, {}) {}

  void begin(const std::vector<core::Cursor>& cursors);  // of a daemon
  // The generation whose job runs; 0 = none does.
  void set_generation(Generation live, Instant now);
  // `blind`: no line can be read. `at_once`: also what changed in nothing but ages.
  std::vector<core::Input> look(const std::vector<ScriptLine>& lines, Instant now, bool blind,
                                bool at_once);

 private:
  void read(const ScriptLine& line, Instant now);

  const core::RunPolicy& policy_;
  std::uint64_t total_;
  Guard broken_;
  std::uint64_t taken_ = 0;  // lines
  bool live_ = false;
  watch::ScriptBeats beats_;  // of this daemon
};

}  // namespace stoker::sim
