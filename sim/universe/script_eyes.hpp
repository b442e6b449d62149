// ScriptEyes: the progress of a run without agents as the daemon reads it from the logs: what
// daemon/logs/script_progress.cpp makes of their lines, on lines that are values already. It
// forgets all but its cursor with its daemon.
#pragma once

#include <optional>
#include <vector>

#include "core/engine/engine.hpp"
#include "sim/training/script_jobs.hpp"
#include "watch/digest_folder.hpp"

namespace stoker::sim {

class ScriptEyes {
 public:
  ScriptEyes(const core::RunPolicy& policy, std::uint64_t total, Guard broken);

  void begin(const std::vector<core::Cursor>& cursors);  // of a daemon
  // The generation whose job runs; 0 = none does.
  void set_generation(Generation live, Instant now);
  // `blind`: no line can be read. `at_once`: also what changed in nothing but ages.
  std::vector<core::Input> look(const std::vector<ScriptLine>& lines, Instant now, bool blind,
                                bool at_once);

 private:
  struct Memory {  // of the newest generation
    Generation generation;
    Instant began, progressed;
    Iteration iteration;
    STOKER_FIELDS(Memory, generation, began, progressed, iteration)
  };
  void read(const ScriptLine& line, Instant now);
  [[nodiscard]] wire::Beat beat(Instant now);

  const core::RunPolicy& policy_;
  std::uint64_t total_;
  Guard broken_;
  std::uint64_t taken_ = 0;  // lines
  Memory memory_;
  bool live_ = false;
  bool late_ = false;  // progress of a generation that is over
  Iteration saved_;
  std::vector<double> durations_;  // ms, since the last beat
  wire::StepLosses losses_;
  std::optional<watch::DigestFolder> folder_;
};

}  // namespace stoker::sim
