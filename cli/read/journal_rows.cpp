// Actions are published as "kind key"; of an alert its kind follows (core/publish/status.cpp).
#include "cli/read/journal_rows.hpp"

namespace stoker::cli {
namespace {

// "send_alert hello/7/0 rank_crash": an alert that was raised; empty: another action, or the end of
// an alert.
std::optional<core::SendAlert> alert_of(std::string_view action, const std::string& reason) {
  constexpr std::string_view kKind = "send_alert ";
  if (!action.starts_with(kKind) || action.ends_with(" resolved")) return std::nullopt;
  action.remove_prefix(kKind.size());
  const auto space = action.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  core::SendAlert alert;
  alert.alert_kind = action.substr(space + 1);
  alert.labels["kind"] = alert.alert_kind;
  alert.summary = reason.substr(0, reason.find(';'));
  return alert;
}

}  // namespace

std::optional<core::JournalRow> JournalRows::row_of(const wire::PublishedEvent& e) {
  auto body = from_json<core::EventBody>(e.event, "events.jsonl");
  const auto wall = parse_rfc3339(e.time);
  if (!body || !wall) return std::nullopt;
  core::JournalRow row;
  row.seq = Sequence(e.seq);
  row.event.wall = *wall;
  row.event.at = Instant(wall->time_since_epoch());
  row.event.run = RunName(e.run);
  row.event.body = *std::move(body);
  row.decision.reason = e.reason;
  row.decision.rejected = e.decision == "rejected";
  constexpr std::string_view kArrow = " -> ";
  if (const std::size_t at = e.decision.find(kArrow); at != std::string::npos) {
    row.decision.from = e.decision.substr(0, at);
    state_ = row.decision.to = e.decision.substr(at + kArrow.size());
  } else {
    row.decision.from = row.decision.to = state_;
  }
  for (const std::string& action : e.actions)
    if (auto alert = alert_of(action, e.reason))
      row.decision.actions.emplace_back(*std::move(alert));
  return row;
}

}  // namespace stoker::cli
