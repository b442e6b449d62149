// Engine: the only caller of core::step, in the daemon and in the simulator alike. One way through
// the house:
//   input -> Event -> step -> Decision -> journal (one transaction a turn) -> effects -> results
//   come back as inputs.
// Single-threaded: the owner calls it from one loop. Nothing is performed before the journal has
// it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/journal.hpp"
#include "core/engine/ports.hpp"

namespace stoker::core {

struct SiteState;  // core/state.hpp

struct Input {
  RunName run;  // empty: the site
  EventBody body;
  std::vector<Cursor> cursors;  // how far the files behind it were read; committed with it
};

// Performs intents, each at once or later on another thread; the result (EffectDone, EffectFailed,
// EffectUnknown, and for look-ups TokenLookedUp) must come back to the engine as an Input of the
// same run.
class EffectRunner {
 public:
  virtual ~EffectRunner() = default;
  virtual void start(const Intent& intent) = 0;
};

// The one translation of an action into calls of ports; blocks. Used by every EffectRunner.
// `policy` is of intent.run.
struct PerformContext {
  RunPolicy policy;
  std::string state_directory;
  Epoch epoch;
  std::vector<std::string>
      agent_command_prefix;  // argv of stoker-agent without its run arguments: the program's path
};
std::vector<EventBody> perform(const Intent& intent, const PerformContext& context, Ports& ports);

class Engine {
 public:
  Engine(Journal& journal, EffectRunner& effects, Clock& clock, std::string build);
  ~Engine();

  // Reads the state row, steps the rows behind it (there are some after a backup was restored),
  // then DaemonStarted; every intent without a result becomes EffectUnknown. Errors: a journal of a
  // newer schema, or one whose state cannot be read.
  Status start(const DaemonStarted& started);

  // Steps all inputs of one loop turn in order, journals them in one transaction, then starts their
  // effects. When the journal fails (disk full, damage) nothing is performed and the state stays as
  // it was: the same inputs may be fed again.
  Status feed(std::vector<Input> inputs);

  // What the decider would make of this input now. Changes nothing.
  [[nodiscard]] Decision preview(const Input& input) const;

  // When the decider wants a Tick (for hang deadlines and so on); feed an up-to-date Digest first,
  // then Tick.
  [[nodiscard]] std::optional<Instant> wake_at() const;
  [[nodiscard]] const SiteState& state() const;
  [[nodiscard]] Sequence last_sequence() const;
  // The rows of the last feed, for publishing (events.jsonl, logs).
  [[nodiscard]] const std::vector<JournalRow>& last_rows() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Replays a journal from zero and compares the final state with the state row, bit for bit: the
// audit after every end-to-end test. Error: the first row where they part, or the row whose
// decision differs.
Status audit_journal(Journal& journal);

}  // namespace stoker::core
