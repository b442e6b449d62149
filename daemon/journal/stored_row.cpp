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

namespace {

// Without the members that are as in `usual`: a missing key keeps its default when it is read. Only
// for what comes often and whose defaults are plain zeros, which no later build will change.
Json without_defaults(Json value, const Json& usual) {
  if (!value.is_object() || !usual.is_object()) return value;
  for (auto it = value.begin(); it != value.end();) {
    const auto same = usual.find(it.key());
    if (same != usual.end() && *same == *it) {
      it = value.erase(it);
      continue;
    }
    if (same != usual.end()) *it = without_defaults(std::move(*it), *same);
    ++it;
  }
  return value;
}

std::string event_text(const core::EventBody& body) {
  const auto* digest = std::get_if<core::Digest>(&body);
  if (digest == nullptr) return to_json_text(body);
  Json short_one = without_defaults(Json(*digest), Json(core::Digest{}));
  short_one["kind"] = core::Digest::kKind;
  return dump_json(short_one);
}

std::string decision_text(const core::Decision& decision) {
  if (decision == core::Decision{}) return {};
  return dump_json(without_defaults(Json(decision), Json(core::Decision{})));
}

}  // namespace

StoredRow to_stored(const core::JournalRow& row) {
  StoredRow stored;
  stored.seq = static_cast<std::int64_t>(row.seq.value);
  stored.at = row.event.at.time_since_epoch().count();
  stored.wall = row.event.wall.time_since_epoch().count();
  stored.run = row.event.run.text;
  stored.kind = core::kind_of(row.event.body);
  stored.event = event_text(row.event.body);
  stored.decision = decision_text(row.decision);
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
