// SimJournal.
#include "sim/universe/sim_journal.hpp"

#include <algorithm>

namespace stoker::sim {
namespace {

constexpr std::uint64_t kStateEvery = 512;
constexpr std::size_t kRowsKept = 1200;
constexpr std::size_t kKeysKept = 20000;

}  // namespace

bool SimJournal::wants_state(Sequence seq) const {
  return !state_ || seq.value >= state_at_.value + kStateEvery;
}

Status SimJournal::append(const std::vector<core::JournalRow>& rows, const core::StateRow& state,
                          const std::vector<core::Cursor>& cursors) {
  for (const core::JournalRow& row : rows) {
    rows_.push_back(row);
    for (const core::Intent& intent : row.intents) {
      open_.emplace(intent.key, intent);
      keys_.insert(intent.key);
    }
  }
  if (!state.bytes.empty()) {
    if (!state_) state_.emplace();
    core::lay_over(*state_, state);
    state_at_ = state.seq;
    while (rows_.size() > kRowsKept && rows_.front().seq <= state_at_) rows_.pop_front();
    while (keys_.size() > kKeysKept) keys_.erase(keys_.begin());
  }
  for (const core::Cursor& cursor : cursors) cursors_[cursor.path] = cursor;
  return ok();
}

Result<std::vector<core::JournalRow>> SimJournal::rows_after(Sequence seq, std::size_t limit) {
  std::vector<core::JournalRow> result;
  auto at = std::partition_point(rows_.begin(), rows_.end(),
                                 [&](const core::JournalRow& row) { return row.seq <= seq; });
  for (; at != rows_.end() && result.size() < limit; ++at) result.push_back(*at);
  return result;
}

Result<std::vector<core::Intent>> SimJournal::open_intents() {
  std::vector<core::Intent> open;
  for (const auto& [key, intent] : open_) open.push_back(intent);
  return open;
}

Status SimJournal::close_intent(const EffectKey& key) {
  open_.erase(key);
  return ok();
}

Result<std::vector<core::Cursor>> SimJournal::cursors() {
  std::vector<core::Cursor> result;
  for (const auto& [path, cursor] : cursors_) result.push_back(cursor);
  return result;
}

std::uint64_t SimJournal::line_of(const std::string& path) const {
  const auto found = cursors_.find(path);
  return found == cursors_.end() ? 0 : found->second.line;
}

void SimJournal::lose_tail(std::size_t rows) {
  for (; rows > 0 && !rows_.empty() && rows_.back().seq > state_at_; --rows) {
    for (const core::Intent& intent : rows_.back().intents) {
      keys_.erase(intent.key);
      open_.erase(intent.key);
    }
    rows_.pop_back();
  }
}

}  // namespace stoker::sim
