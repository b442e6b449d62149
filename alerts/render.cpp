// Text of alerts.
#include "alerts/render.hpp"

#include <algorithm>
#include <cctype>

#include "common/printable.hpp"

namespace stoker::alerts {

namespace {
constexpr const char* kAcknowledgedBy = "acknowledged_by";  // of the action; no label for receivers

// Of the page that stokerd serves; a run's name needs no encoding.
std::string page_of(std::string page, const std::string& run) {
  while (page.ends_with('/')) page.pop_back();
  return page + (run.empty() || run == "site" ? "/#/" : "/#/run/" + run);
}

std::string stamp(WallTime at) {
  std::string text = format_rfc3339(at).substr(0, 19);
  text[10] = ' ';
  return "[" + text + "] ";
}
}  // namespace

std::string cut(std::string text, std::size_t limit) {
  constexpr std::string_view kMark = "…";
  if (text.size() <= limit) return text;
  std::size_t end = limit - std::min(limit, kMark.size());
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  text.resize(end);
  return text + std::string(kMark);
}

std::string cut_characters(std::string text, std::size_t limit) {
  std::size_t characters = 0, end = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;
    if (characters + 1 == limit) end = i;
    if (++characters > limit) return text.substr(0, end) + "…";
  }
  return text;
}

// A zero-width space after each @.
std::string plain_in_chat(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\`*_[]<>#|~").find(c) != std::string_view::npos) out += '\\';
    out += c;
    if (c == '@') out += "\u200b";
  }
  return out;
}

std::string one_line(std::string_view text, std::size_t limit) {
  return printable(cut(std::string(text), limit));
}

namespace {

// Each line made harmless, at most kReportLines of them.
std::string lines_of(const std::string& text) {
  constexpr std::size_t kReportLines = 40;
  std::string out;
  std::size_t begin = 0;
  for (std::size_t n = 0; begin < text.size() && n < kReportLines; ++n) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    out += one_line(std::string_view(text).substr(begin, end - begin), 600) + "\n";
    begin = end + 1;
  }
  return out;
}

}  // namespace

RenderedAlert render(const EffectKey& key, const core::SendAlert& alert, WallTime since,
                     WallTime at, const std::string& page) {
  RenderedAlert out;
  out.key = key;
  out.id = alert.id;
  out.severity = alert.severity;
  out.kind = alert.alert_kind;
  const auto run = alert.labels.find("run");
  out.run = run == alert.labels.end() ? alert.id.substr(0, alert.id.find('/')) : run->second;
  out.summary = one_line(alert.summary, 300);
  out.reason = one_line(alert.reason, 2000);
  out.command = one_line(alert.command, 1000);
  out.report = lines_of(alert.report);
  out.impact = one_line(alert.impact, 300);
  out.progress = one_line(alert.progress, 300);
  out.curve = one_line(alert.curve, 300);
  out.resolved = alert.resolved;
  out.labels = alert.labels;
  if (const auto by = out.labels.extract(kAcknowledgedBy))
    out.acknowledged_by = one_line(by.mapped(), 100);
  if (!out.run.empty()) out.labels["run"] = out.run;
  if (!page.empty()) out.page = page_of(page, out.run);
  out.labels["kind"] = alert.alert_kind;
  out.labels["severity"] = std::string(name_of(alert.severity));
  out.since = since;
  out.at = at;
  return out;
}

std::string status_of(const RenderedAlert& alert) {
  if (alert.resolved) return "resolved";
  return alert.acknowledged_by.empty() ? "firing" : "acknowledged";
}

std::string word_of(const RenderedAlert& alert) {
  if (alert.resolved) return "RESOLVED";
  if (!alert.acknowledged_by.empty()) return "ACKNOWLEDGED";
  std::string word(name_of(alert.severity));
  for (char& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return (alert.repeated ? "STILL " : "") + word;
}

namespace {

// Names the run once, also where the summary begins with it.
std::string head_of(const RenderedAlert& alert) {
  const bool named = alert.run.empty() || alert.summary.starts_with(alert.run + " ") ||
                     alert.summary.starts_with(alert.run + ":");
  return word_of(alert) + " " + (named ? "" : alert.run + ": ") + alert.summary;
}

}  // namespace

std::string title_of(const RenderedAlert& alert) {
  constexpr std::size_t kLongestTitle = 80;
  if (alert.also.empty()) return cut_characters(head_of(alert), kLongestTitle);
  const std::string more = " (+" + std::to_string(alert.also.size()) + " more)";
  return cut_characters(head_of(alert), kLongestTitle - more.size()) + more;
}

namespace {

// The decision's sentence begins with what happened; this is the rest of it. "" = it is all one.
std::string done_of(const RenderedAlert& alert) {
  if (!alert.reason.starts_with(alert.summary + "; ")) return "";
  return alert.reason.substr(alert.summary.size() + 2);
}

std::string look_of(const RenderedAlert& alert) {
  const bool site = alert.run.empty() || alert.run == "site";
  return site ? "stoker doctor" : "stoker why " + alert.run;
}

// Commands to paste, a line each: what helps, why it happened, whose it is now.
std::string next_of(const RenderedAlert& alert) {
  if (status_of(alert) != "firing") return "";
  if (alert.severity == core::Severity::Info) return alert.command;
  std::string text = alert.command;
  for (const std::string& command : {look_of(alert), "stoker ack " + alert.id})
    if (!alert.command.starts_with(command)) text += (text.empty() ? "" : "\n") + command;
  return text;
}

}  // namespace

std::string verdict_of(const RenderedAlert& alert) {
  if (alert.resolved)
    return "No action needed: resolved after " + format_duration(alert.at - alert.since);
  if (!alert.acknowledged_by.empty()) return alert.acknowledged_by + " looks after it";
  switch (alert.severity) {
    case core::Severity::Critical:
      return alert.command.empty() ? "Look now: " + look_of(alert) : "Act now: " + alert.command;
    case core::Severity::Warning:
      if (const std::string done = done_of(alert); !done.empty())
        return "No need to get up: " + one_line(done, 500);
      return alert.command.empty() ? "No action needed now"
                                   : "No need to get up; to look into it: " + alert.command;
    case core::Severity::Info: break;
  }
  return "For information only";
}

std::vector<std::pair<std::string, std::string>> details_of(const RenderedAlert& alert) {
  std::vector<std::pair<std::string, std::string>> details{{"Impact", alert.impact},
                                                           {"Run", alert.progress},
                                                           {"Loss", alert.curve},
                                                           {"Next", next_of(alert)},
                                                           {"Page", alert.page}};
  std::erase_if(details, [](const auto& detail) { return detail.second.empty(); });
  return details;
}

std::string detail_lines(const RenderedAlert& alert) {
  std::string text;
  for (const auto& [name, value] : details_of(alert)) {
    text += name + ": ";
    for (const char c : value)
      text += c == '\n' ? "\n" + std::string(name.size() + 2, ' ') : std::string(1, c);
    text += "\n";
  }
  return text;
}

std::string text_of(const RenderedAlert& alert) {
  const std::string verdict = verdict_of(alert);
  std::string text = head_of(alert) + ". " + verdict + "\n";
  if (!alert.instead_of.empty())
    text += "Sent here because another sink failed: " + alert.instead_of + "\n";
  const std::string done = done_of(alert);  // the first line may hold all of the sentence
  const bool repeats = done.empty() ? alert.reason == alert.summary : verdict.ends_with(done);
  if (!alert.reason.empty() && !repeats) text += "What stoker saw and did: " + alert.reason + "\n";
  text += detail_lines(alert);
  text += "Since: " + format_rfc3339(alert.since) + "\nIncident: " + alert.id + "\n";
  if (!alert.report.empty()) text += "\n" + alert.report;
  return text;
}

std::map<std::string, std::string> fields_of(const RenderedAlert& alert) {
  return {{"id", alert.id},
          {"key", alert.key.text},
          {"status", status_of(alert)},
          {"severity", std::string(name_of(alert.severity))},
          {"run", alert.run},
          {"kind", alert.kind},
          {"title", title_of(alert)},
          {"verdict", verdict_of(alert)},
          {"summary", alert.summary},
          {"reason", alert.reason},
          {"command", alert.command},
          {"report", alert.report},
          {"impact", alert.impact},
          {"progress", alert.progress},
          {"curve", alert.curve},
          {"next", next_of(alert)},
          {"page", alert.page},
          {"text", text_of(alert)},
          {"since", format_rfc3339(alert.since)},
          {"at", format_rfc3339(alert.at)},
          {"acknowledged_by", alert.acknowledged_by},
          {"instead_of", alert.instead_of},
          {"escalated", alert.escalated}};
}

std::string pulse_line(WallTime at, const std::string& text) {
  return stamp(at) + "PULSE: " + one_line(text, 4000) + "\n";
}

std::string pulse_line(const RenderedAlert& alert) {
  std::string text = alert.run.empty() ? "" : alert.run + ": ";
  if (alert.resolved) text += "resolved: ";
  text += alert.summary;
  if (!alert.resolved) text += " (" + std::string(name_of(alert.severity)) + ")";
  if (!alert.reason.empty()) text += ". " + alert.reason;
  if (!alert.command.empty()) text += " Run: " + alert.command;
  if (alert.resolved || alert.severity == core::Severity::Info) return pulse_line(alert.at, text);
  return stamp(alert.at) + "***ALERT: " + one_line(text, 4000) + " ***\n";
}

}  // namespace stoker::alerts
