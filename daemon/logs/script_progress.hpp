// ScriptProgress: the progress of a run without agents, as the lines of its logs tell it, folded
// like the heartbeats of one that has them. Pure but for the times it is given. What must survive a
// daemon travels in a cursor: the age of the last progress is then known across the gap by this
// host's wall clock, for all that was written meanwhile has been read first.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/engine.hpp"
#include "diagnose/parse/progress_reader.hpp"
#include "watch/digest_folder.hpp"

namespace stoker::daemon {

class ScriptProgress {
 public:
  ScriptProgress(const core::RunPolicy& policy, const std::vector<core::Cursor>& cursors);

  // The generation whose job runs; 0 = none does.
  void set_generation(Generation live, Instant now, WallTime wall);
  // `source`: the log's path. Two logs may tell the same iterations: one of them leads.
  void line(const std::string& source, std::string_view text, Instant now, WallTime wall);

  // What is reported now; `at_once`: also what changed in nothing but ages.
  std::optional<core::Digest> poll(Instant now, bool at_once);
  [[nodiscard]] core::Cursor cursor() const;

  // Why watch.progress cannot be used; "" = it can.
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  struct Memory {  // of the newest generation
    Generation generation;
    WallTime began, progressed;
    Iteration iteration;
    STOKER_FIELDS(Memory, generation, began, progressed, iteration)
  };
  [[nodiscard]] wire::Beat beat(Instant now);
  void progressed(Instant now, WallTime wall);

  RunName run_;
  std::uint32_t ranks_;
  Duration interval_;
  std::optional<std::uint64_t> ends_at_;  // train.finished; else what the logs say
  std::string error_;
  diagnose::ProgressReader reader_;
  Memory memory_;
  bool live_ = false;
  bool late_ = false;  // progress of a generation that is over
  std::string leader_;
  Instant began_, progressed_, leader_at_;
  std::optional<Instant> iterated_at_;
  diagnose::IterationMetrics last_;
  std::vector<double> durations_;  // ms, since the last beat
  wire::StepLosses losses_;        // since the last beat
  Iteration saved_;                // newest checkpoint that the logs reported
  std::optional<watch::DigestFolder> folder_;
};

}  // namespace stoker::daemon
