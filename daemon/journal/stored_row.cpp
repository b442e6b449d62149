// Journal rows as they are stored, and which event is the result of which intent.
#include <fmt/format.h>

#include "daemon/journal/sqlite_journal.hpp"

namespace stoker::daemon {

std::optional<IntentClosed> closed_by(const core::EventBody& body) {
  if (const auto* e = std::get_if<core::EffectDone>(&body))
    return IntentClosed{e->key.text, "", "done"};
  if (const auto* e = std::get_if<core::EffectFailed>(&body))
    return IntentClosed{e->key.text, "", "failed"};
  if (const auto* e = std::get_if<core::EffectUnknown>(&body))
    return IntentClosed{e->key.text, "", "unknown"};
  if (const auto* e = std::get_if<core::TokenLookedUp>(&body))
    return IntentClosed{"", e->token.text, "done"};
  return std::nullopt;
}

StoredRow to_stored(const core::JournalRow& row) {
  StoredRow stored;
  stored.seq = static_cast<std::int64_t>(row.seq.value);
  stored.at = row.event.at.time_since_epoch().count();
  stored.wall = row.event.wall.time_since_epoch().count();
  stored.run = row.event.run.text;
  stored.kind = core::kind_of(row.event.body);
  stored.event = to_json_text(row.event.body);
  if (!(row.decision == core::Decision{})) stored.decision = to_json_text(row.decision);
  if (!row.intents.empty()) stored.intents = to_json_text(row.intents);
  return stored;
}

Result<core::JournalRow> from_stored(const StoredRow& row, const std::string& object) {
  const std::string where = fmt::format("{}: row {}", object, row.seq);
  if (row.lost)
    return fail("its content was lost to damage", where, "the state that followed it is kept");
  core::JournalRow out;
  out.seq = Sequence(static_cast<std::uint64_t>(row.seq));
  out.event.at = Instant(Duration(row.at));
  out.event.wall = WallTime(Duration(row.wall));
  out.event.run = RunName(row.run);
  STOKER_TRY(body, from_json_text<core::EventBody>(row.event, where));
  out.event.body = std::move(body);
  if (!row.decision.empty()) {
    STOKER_TRY(decision, from_json_text<core::Decision>(row.decision, where));
    out.decision = std::move(decision);
  }
  if (!row.intents.empty()) {
    STOKER_TRY(intents, from_json_text<std::vector<core::Intent>>(row.intents, where));
    out.intents = std::move(intents);
  }
  return out;
}

}  // namespace stoker::daemon
