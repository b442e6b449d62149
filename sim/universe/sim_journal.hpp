// SimJournal: a journal in memory for simulations of months: rows as values, the state row only now
// and then (the rows behind it are stepped again at the next start, which also proves that replay
// decides the same), old rows forgotten. Knows which keys were ever journalled.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/engine/journal.hpp"

namespace stoker::sim {

class SimJournal : public core::Journal {
 public:
  Status append(const std::vector<core::JournalRow>& rows, const core::StateRow& state,
                const std::vector<core::Cursor>& cursors) override;
  [[nodiscard]] bool wants_state(Sequence seq) const override;
  [[nodiscard]] bool may_refuse() const override { return false; }
  Result<std::optional<core::StateRow>> load_state() override { return state_; }
  Result<std::vector<core::JournalRow>> rows_after(Sequence seq, std::size_t limit) override;
  Result<std::vector<core::Intent>> open_intents() override;
  Status close_intent(const EffectKey& key) override;
  Result<std::vector<core::Cursor>> cursors() override;

  // The disk loses the newest rows at a crash, as a journal that is written after the effects does.
  void lose_tail(std::size_t rows);
  [[nodiscard]] std::uint64_t line_of(const std::string& path) const;  // of its cursor; 0: none
  [[nodiscard]] bool knows(const EffectKey& key) const { return keys_.contains(key); }
  [[nodiscard]] const std::set<EffectKey>& keys() const { return keys_; }

 private:
  std::deque<core::JournalRow> rows_;
  std::optional<core::StateRow> state_;
  Sequence state_at_;
  std::map<std::string, core::Cursor> cursors_;
  std::map<EffectKey, core::Intent> open_;
  std::set<EffectKey> keys_;
};

}  // namespace stoker::sim
