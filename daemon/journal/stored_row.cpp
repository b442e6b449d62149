// Journal rows as they are stored, and which event is the result of which intent.
#include <array>
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

// Digests are most of a journal, and their keys most of a digest. A key that is not here stays as
// it is; none of the short ones is a key of its own. Rows keep what they were written with: add,
// never change.
constexpr std::array<std::pair<std::string_view, std::string_view>, 18> kShortKeys{{
    {"consumed_samples", "cs"},
    {"consumed_tokens", "ct"},
    {"generation", "g"},
    {"gradient_norm", "gn"},
    {"iteration_max", "ix"},
    {"iteration_min", "im"},
    {"iteration_ms", "ms"},
    {"learning_rate", "lr"},
    {"newest_progress_age_ms", "na"},
    {"phase_age_ms", "pa"},
    {"progress_age_ms", "ra"},
    {"reporting", "rp"},
    {"saves_answered", "sa"},
    {"checkpoint", "cp"},
    {"losses", "ls"},
    {"high_at", "ha"},
    {"not_finite", "nf"},
    {"skipped", "sk"},
}};

Json with_keys(const Json& value, bool shorten) {
  if (!value.is_object()) return value;
  Json renamed = Json::object();
  for (const auto& [key, member] : value.items()) {
    std::string_view name = key;
    for (const auto& [full, brief] : kShortKeys)
      if (name == (shorten ? full : brief)) {
        name = shorten ? brief : full;
        break;
      }
    renamed[std::string(name)] = with_keys(member, shorten);
  }
  return renamed;
}

std::string event_text(const core::EventBody& body) {
  const auto* digest = std::get_if<core::Digest>(&body);
  if (digest == nullptr) return to_json_text(body);
  Json short_one = without_defaults(Json(*digest), Json(core::Digest{}));
  return dump_json(with_keys(short_one, true));
}

std::string decision_text(const core::Decision& decision) {
  if (decision == core::Decision{}) return {};
  Json text = without_defaults(Json(decision), Json(core::Decision{}));
  if (decision.to == decision.from) text.erase("to");
  return dump_json(text);
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
  STOKER_TRY(text, parse_json(row.event, where));
  if (row.kind == core::Digest::kKind) text = with_keys(text, false);
  if (text.is_object() && !text.contains("kind")) text["kind"] = row.kind;
  STOKER_TRY(body, from_json<core::EventBody>(text, where));
  out.event.body = std::move(body);
  if (!row.decision.empty()) {
    STOKER_TRY(decision, from_json_text<core::Decision>(row.decision, where));
    if (row.decision.find("\"to\":") == std::string::npos) decision.to = decision.from;
    out.decision = std::move(decision);
  }
  if (!row.intents.empty()) {
    STOKER_TRY(intents, from_json_text<std::vector<core::Intent>>(row.intents, where));
    out.intents = std::move(intents);
  }
  return out;
}

}  // namespace stoker::daemon
