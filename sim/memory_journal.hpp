// Journal in memory, with the faults of a disk: full, or torn in the middle of a transaction. Rows
// are kept as text, so that everything that is journalled must survive being written and read.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/engine/journal.hpp"

namespace stoker::sim {

class MemoryJournal : public core::Journal {
 public:
  [[nodiscard]] bool wants_state(Sequence /*seq*/) const override { return keep_; }
  Status append(const std::vector<core::JournalRow>& rows, const core::StateRow& state,
                const std::vector<core::Cursor>& cursors) override;
  Result<std::optional<core::StateRow>> load_state() override;
  Result<std::vector<core::JournalRow>> rows_after(Sequence seq, std::size_t limit) override;
  Result<std::vector<core::Intent>> open_intents() override;
  Status close_intent(const EffectKey& key) override;
  Result<std::vector<core::Cursor>> cursors() override;

  void set_full(bool full) { full_ = full; }
  void forget_rows() { keep_ = false; }  // from now on: for lives that are not audited
  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  // For tests of damage: the text of row `seq` (from 1).
  std::string& text_of(std::size_t seq) { return rows_.at(seq - 1).decision; }

 private:
  struct Stored {
    Sequence seq;
    std::string event, decision, intents;
  };
  bool full_ = false, keep_ = true;
  std::vector<Stored> rows_;
  std::optional<core::StateRow> state_;
  std::map<std::string, core::Cursor> cursors_;
  std::set<EffectKey> closed_;
};

}  // namespace stoker::sim
