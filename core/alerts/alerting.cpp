// Alerts: raise, resolve, acknowledge, silence.
#include "core/alerts/alerting.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <utility>

#include "core/alerts/alert_facts.hpp"
#include "core/operators/silences.hpp"

namespace stoker::core {
namespace {

constexpr const char* kConvicted = "node_convicted";

RunName run_of(const Turn& turn) {
  return turn.run == nullptr ? RunName{} : turn.run->policy.run;
}

SendAlert make_action(const AlertState& alert, bool resolved, const std::string& reason) {
  SendAlert action;
  action.id = alert.id;
  action.severity = alert.severity;
  action.alert_kind = alert.kind;
  action.summary = alert.summary;
  action.reason = reason;
  action.command = resolved ? "" : alert.command;
  action.resolved = resolved;
  action.labels["run"] = alert.run.text;
  action.labels["kind"] = alert.kind;
  if (!alert.subject.empty()) action.labels["subject"] = alert.subject;
  if (alert.acknowledged) action.labels["acknowledged_by"] = alert.acknowledged_by;
  return action;
}

bool silenced(const Turn& turn, const AlertState& alert) {
  return alert.quiet || is_silenced(turn.site, alert, turn.now());
}

// Of this kind (and subject, if one is given) are resolved, except those that `lasts` names.
void resolve_except(Turn& turn, const std::string& kind, const std::string& subject,
                    const std::function<bool(const AlertState&)>& lasts) {
  const RunName run = run_of(turn);
  for (auto it = turn.site.alerts.begin(); it != turn.site.alerts.end();) {
    const AlertState& alert = it->second;
    if (alert.run != run || alert.kind != kind || (!subject.empty() && alert.subject != subject) ||
        lasts(alert)) {
      ++it;
      continue;
    }
    if (!silenced(turn, alert)) turn.act(make_action(alert, true, turn.decision.reason));
    it = turn.site.alerts.erase(it);
  }
}

}  // namespace

std::vector<SendAlert> alerts_to_repeat(const SiteState& site, const RunName& run, Instant now) {
  std::vector<SendAlert> open;
  for (const auto& [id, alert] : site.alerts)
    if (alert.run == run && !alert.quiet && !is_silenced(site, alert, now))
      open.push_back(make_action(alert, false, alert.reason));
  if (const auto found = site.runs.find(run); found != site.runs.end())
    for (SendAlert& alert : open) add_facts(alert, found->second, site.wall);
  return open;
}

void raise(Turn& turn, const AlertText& text) {
  const RunName run = run_of(turn);
  const std::string kind = text.kind.text();
  for (auto& [id, alert] : turn.site.alerts) {
    if (alert.run != run || alert.kind != kind || alert.subject != text.subject) continue;
    const bool graver = text.severity > alert.severity;
    alert.severity = std::max(alert.severity, text.severity);
    alert.summary = text.summary;
    alert.reason = turn.decision.reason;
    alert.command = text.command;
    if (graver && !silenced(turn, alert)) turn.act(make_action(alert, false, alert.reason));
    return;
  }
  AlertState alert;
  const std::string scope = run.empty() ? "site" : run.text;
  alert.id = fmt::format("{}/{}/{}", scope, kind, turn.site.seq.value);
  for (int n = 2; turn.site.alerts.contains(alert.id); ++n)
    alert.id = fmt::format("{}/{}/{}.{}", scope, kind, turn.site.seq.value, n);
  alert.run = run;
  alert.subject = text.subject;
  alert.severity = text.severity;
  alert.kind = kind;
  alert.summary = text.summary;
  alert.reason = turn.decision.reason;
  alert.command = text.command;
  alert.since = turn.event.wall;
  alert.seq = turn.site.seq;
  const AlertState& kept = turn.site.alerts.emplace(alert.id, alert).first->second;
  if (silenced(turn, kept)) return;
  SendAlert action = make_action(kept, false, kept.reason);
  action.report = text.report;
  turn.act(std::move(action));
}

void announce(Turn& turn, const AlertText& text) {
  AlertState alert;
  alert.kind = text.kind.text();
  alert.id = fmt::format("{}/{}/{}", turn.name().text, alert.kind, turn.site.seq.value);
  alert.run = turn.name();
  alert.severity = text.severity;
  alert.summary = text.summary;
  alert.command = text.command;
  if (silenced(turn, alert)) return;
  SendAlert action = make_action(alert, false, turn.decision.reason);
  action.report = text.report;
  turn.act(std::move(action));
}

void group_convictions(SiteState& site, Decision& decision) {
  const auto as_alert = [](Action& action) {
    auto* alert = std::get_if<SendAlert>(&action);
    return alert != nullptr && !alert->resolved ? alert : nullptr;
  };
  SendAlert* cause = nullptr;
  for (Action& action : decision.actions)
    if (SendAlert* alert = as_alert(action); alert != nullptr && alert->alert_kind != kConvicted)
      cause = alert;
  if (cause == nullptr) return;
  std::erase_if(decision.actions, [&](Action& action) {
    SendAlert* alert = as_alert(action);
    if (alert == nullptr || alert->alert_kind != kConvicted) return false;
    const auto open = site.alerts.find(alert->id);
    if (open == site.alerts.end() || open->second.acknowledged) return false;
    open->second.quiet = true;
    cause->report += (cause->report.empty() ? "" : "\n") + alert->report;
    return true;
  });
}

void resolve(Turn& turn, AlertKind what, const std::string& subject) {
  resolve_except(turn, what.text(), subject, [](const AlertState&) { return false; });
}

void resolve_failures(Turn& turn) {
  const RunState* run = turn.run;
  const auto still_full = [run](const AlertState& alert) {  // the run directory itself
    return alert.kind == "disk_full" && run != nullptr && run->conditions.no_room_since &&
           alert.subject == run->policy.directory;
  };
  for (const AlertKindRow& row : kAlertKinds)
    if (row.failure) resolve_except(turn, row.name, "", still_full);
}

void acknowledge(Turn& turn, const std::string& id, const std::string& by,
                 const std::string& note) {
  const auto found = turn.site.alerts.find(id);
  if (found == turn.site.alerts.end())
    return turn.reject(fmt::format("no open alert has the id \"{}\"", id));
  AlertState& alert = found->second;
  const bool again = std::exchange(alert.acknowledged, true);
  alert.acknowledged_by = by;
  const std::string sentence = fmt::format("{} acknowledged the alert {}{}", by, id,
                                           note.empty() ? "" : ": \"" + note + "\"");
  turn.say(sentence);
  if (!again && !silenced(turn, alert)) turn.act(make_action(alert, false, sentence));
}

void acknowledge_run(Turn& turn, const std::string& by, const std::string& words) {
  std::vector<std::string> ids;
  for (const auto& [id, alert] : turn.site.alerts) {
    if (alert.run != run_of(turn)) continue;
    if (id == words) ids.clear();
    if (!alert.acknowledged || id == words) ids.push_back(id);
    if (id == words) break;
  }
  if (ids.empty())
    turn.say(fmt::format("acknowledged by {}; no alert of {} is open", by, turn.name().text));
  for (const std::string& id : ids) acknowledge(turn, id, by, id == words ? "" : words);
}

}  // namespace stoker::core
