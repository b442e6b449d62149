// ScriptBeats: the progress of a run without agents, as values that its logs gave, folded like the
// heartbeats of one that has agents. Pure but for the times it is given. What must survive a daemon
// travels in a cursor: the age of the last progress is then known across the gap by this host's
// wall clock, for all that was written meanwhile has been read first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/engine/engine.hpp"
#include "watch/digest_folder.hpp"

namespace stoker::watch {

// What a log line reports about a completed iteration; empty: nothing.
struct ScriptIteration {
  Iteration iteration;
  std::optional<double> elapsed_ms;
  std::optional<std::uint64_t> total, samples, tokens;
  std::optional<double> loss, gradient_norm, loss_scale, learning_rate, tflops;
  std::uint64_t skipped = 0, nan = 0;
};

class ScriptBeats {
 public:
  ScriptBeats(const core::RunPolicy& policy, const std::vector<core::Cursor>& cursors);

  // The generation whose job runs; 0 = none does. True: another one than before.
  bool set_generation(Generation live, Instant now, WallTime wall);
  void completed(const ScriptIteration& line, Instant now, WallTime wall);
  void progressed(Instant now, WallTime wall);  // in another way than by an iteration
  void saved(Iteration iteration) { saved_ = iteration; }
  [[nodiscard]] Iteration reached() const { return memory_.iteration; }

  // What is reported now; `at_once`: also what changed in nothing but ages.
  std::optional<core::Digest> poll(Instant now, bool at_once);
  [[nodiscard]] core::Cursor cursor() const;

 private:
  struct Memory {  // of the newest generation
    Generation generation;
    WallTime began, progressed;
    Iteration iteration;
    STOKER_FIELDS(Memory, generation, began, progressed, iteration)
  };
  [[nodiscard]] wire::Beat beat(Instant now);

  RunName run_;
  std::uint32_t ranks_;
  Duration interval_;
  std::optional<std::uint64_t> ends_at_;  // train.finished; else what the logs say
  Memory memory_;
  bool live_ = false;
  bool late_ = false;  // progress of a generation that is over
  Instant began_, progressed_;
  std::optional<Instant> iterated_at_;
  ScriptIteration last_;
  std::vector<double> durations_;  // ms, since the last beat
  wire::StepLosses losses_;        // since the last beat
  Iteration saved_;                // newest checkpoint that the logs reported
  std::optional<DigestFolder> folder_;
};

}  // namespace stoker::watch
