// Text of alerts.
#include "alerts/render.hpp"

namespace stoker::alerts {

namespace {
std::string stamp(WallTime at) {
  std::string text = format_rfc3339(at).substr(0, 19);
  text[10] = ' ';
  return "[" + text + "] ";
}
}  // namespace

std::string one_line(std::string_view text, std::size_t limit) {
  bool cut = false;
  if (text.size() > limit) {
    std::size_t end = limit;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    text = text.substr(0, end);
    cut = true;
  }
  std::string out(text);
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return cut ? out + "…" : out;
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
                     WallTime at) {
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
  out.resolved = alert.resolved;
  out.labels = alert.labels;
  if (!out.run.empty()) out.labels["run"] = out.run;
  out.labels["kind"] = alert.alert_kind;
  out.labels["severity"] = std::string(name_of(alert.severity));
  out.since = since;
  out.at = at;
  return out;
}

std::string title_of(const RenderedAlert& alert) {
  const std::string subject = alert.run.empty() ? "" : alert.run + ": ";
  if (alert.resolved) return subject + "resolved: " + alert.summary;
  return subject + alert.summary + " (" + std::string(name_of(alert.severity)) + ")";
}

std::string text_of(const RenderedAlert& alert) {
  std::string text = title_of(alert) + "\n";
  if (!alert.reason.empty()) text += "Why: " + alert.reason + "\n";
  if (!alert.command.empty()) text += "Do: " + alert.command + "\n";
  if (!alert.report.empty()) text += "\n" + alert.report;
  return text;
}

std::string pulse_line(WallTime at, const std::string& text) {
  return stamp(at) + "PULSE: " + one_line(text, 4000) + "\n";
}

std::string pulse_line(const RenderedAlert& alert) {
  std::string text = title_of(alert);
  if (!alert.reason.empty()) text += ". " + alert.reason;
  if (!alert.command.empty()) text += " Run: " + alert.command;
  if (alert.resolved || alert.severity == core::Severity::Info) return pulse_line(alert.at, text);
  return stamp(alert.at) + "***ALERT: " + one_line(text, 4000) + " ***\n";
}

}  // namespace stoker::alerts
