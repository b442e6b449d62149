// Journal in memory.
#include "sim/memory_journal.hpp"

#include <algorithm>

namespace stoker::sim {

Status MemoryJournal::append(const std::vector<core::JournalRow>& rows, const core::StateRow& state,
                             const std::vector<core::Cursor>& cursors) {
  if (full_) return fail("no space left on device", "journal");
  for (const core::JournalRow& row : rows)
    if (keep_)
      rows_.push_back({row.seq, to_json_text(row.event), to_json_text(row.decision),
                       to_json_text(row.intents)});
  if (!state_) state_.emplace();
  if (!state.bytes.empty()) core::lay_over(*state_, state);
  for (const core::Cursor& cursor : cursors) cursors_[cursor.path] = cursor;
  return ok();
}

Result<std::optional<core::StateRow>> MemoryJournal::load_state() {
  return state_;
}

Result<std::vector<core::JournalRow>> MemoryJournal::rows_after(Sequence seq, std::size_t limit) {
  std::vector<core::JournalRow> result;
  for (const Stored& stored : rows_) {
    if (stored.seq <= seq) continue;
    if (result.size() == limit) break;
    core::JournalRow row;
    row.seq = stored.seq;
    STOKER_TRY(event, from_json_text<core::Event>(stored.event, "journal row"));
    STOKER_TRY(decision, from_json_text<core::Decision>(stored.decision, "journal row"));
    STOKER_TRY(intents, from_json_text<std::vector<core::Intent>>(stored.intents, "journal row"));
    row.event = std::move(event);
    row.decision = std::move(decision);
    row.intents = std::move(intents);
    result.push_back(std::move(row));
  }
  return result;
}

Result<std::vector<core::Intent>> MemoryJournal::open_intents() {
  STOKER_TRY(rows, rows_after(Sequence{}, rows_.size()));
  std::vector<core::Intent> open;
  for (const core::JournalRow& row : rows)
    for (const core::Intent& intent : row.intents)
      if (!closed_.contains(intent.key)) open.push_back(intent);
  return open;
}

Status MemoryJournal::close_intent(const EffectKey& key) {
  if (keep_) closed_.insert(key);
  return ok();
}

Result<std::vector<core::Cursor>> MemoryJournal::cursors() {
  std::vector<core::Cursor> result;
  for (const auto& [path, cursor] : cursors_) result.push_back(cursor);
  return result;
}

}  // namespace stoker::sim
