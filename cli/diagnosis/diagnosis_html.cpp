// A row a log: its span, its findings as marks. The axis is time where the logs tell it, else
// lines.
#include "cli/diagnosis/diagnosis_html.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

#include "cli/diagnosis/diagnosis_page.hpp"
#include "cli/show/console.hpp"
#include "common/escape_html.hpp"
#include "common/printable.hpp"
#include "common/time.hpp"

namespace stoker::cli {

namespace {

using diagnose::Finding;
using diagnose::ScannedLog;

constexpr std::size_t kMostRows = 2000, kMostMarks = 40;
constexpr int kWidth = 900, kLabel = 190, kRow = 18;

constexpr const char* kStyle =
    "body{font:15px/1.5 sans-serif;max-width:1140px;margin:2em auto;padding:0 1em;color:#222}"
    "h1{font-size:1.4em}pre{background:#f4f4f4;padding:.6em;white-space:pre-wrap;"
    "word-break:break-all}table{border-collapse:collapse}td{padding:.15em .8em .15em 0;"
    "vertical-align:top}.bad{color:#b00020}.good{color:#1b7f3b}.mild{color:#9a6700}"
    "svg text{font:12px sans-serif}svg .root{font-weight:bold;fill:#b00020}";

std::string escaped(std::string_view text) {
  return escape_html(printable(text));
}

struct Axis {
  bool by_time = false;
  std::int64_t first = 0, last = 1;
  [[nodiscard]] double at(std::int64_t value) const {
    const double share = static_cast<double>(value - first) / static_cast<double>(last - first);
    return kLabel + std::clamp(share, 0.0, 1.0) * kWidth;
  }
};

// Time if at least half of the logs tell it.
Axis axis_of(const std::vector<const ScannedLog*>& rows) {
  Axis axis;
  std::size_t timed = 0;
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = 0;
  for (const ScannedLog* log : rows) {
    if (!log->first_time_ms || !log->last_time_ms) continue;
    ++timed;
    first = std::min(first, *log->first_time_ms);
    last = std::max(last, *log->last_time_ms);
  }
  axis.by_time = timed * 2 >= rows.size() && timed > 0 && last > first;
  if (axis.by_time) {
    axis.first = first;
    axis.last = last;
  } else {
    for (const ScannedLog* log : rows)
      axis.last = std::max(axis.last, static_cast<std::int64_t>(log->lines));
  }
  return axis;
}

std::string row_name(const ScannedLog& log) {
  if (log.rank) return fmt::format("rank {}{}", *log.rank, log.node.empty() ? "" : " " + log.node);
  const std::string name = log.name.substr(log.name.rfind('/') + 1);
  return name.size() > 26 ? "…" + name.substr(name.size() - 25) : name;
}

std::string mark(const Finding& f, const Axis& axis, int y) {
  if (axis.by_time && !f.time_ms) return "";
  const double x = axis.at(axis.by_time ? *f.time_ms : static_cast<std::int64_t>(f.line));
  const char* colour = f.severity == diagnose::Severity::Fatal ? "#b00020" : "#d08700";
  return fmt::format(
      "<circle cx=\"{:.1f}\" cy=\"{}\" r=\"4\" fill=\"{}\"><title>line {}: {} ({}x)\n{}</title>"
      "</circle>",
      x, y + kRow / 2, colour, f.line, name_of(f.failure_class), f.count,
      escaped(f.text.substr(0, 300)));
}

std::string row(const ScannedLog& log, const Axis& axis, int y, bool has_root) {
  const std::int64_t end =
      axis.by_time ? log.last_time_ms.value_or(axis.first) : static_cast<std::int64_t>(log.lines);
  const std::int64_t begin = axis.by_time ? log.first_time_ms.value_or(axis.first) : 0;
  const double from = axis.at(begin), to = std::max(axis.at(end), from + 1);
  std::string text = fmt::format(
      "<text x=\"0\" y=\"{}\"{}>{}</text><rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"8\" "
      "rx=\"2\" fill=\"#9db8d9\"><title>{}: {} lines, last iteration {}</title></rect>",
      y + 13, has_root ? " class=\"root\"" : "", escaped(row_name(log)), from, y + 5, to - from,
      escaped(log.name), log.lines, log.last_iteration);
  std::size_t marks = 0;
  for (const Finding& f : log.findings)
    if (++marks <= kMostMarks) text += mark(f, axis, y);
  return text + "\n";
}

std::string timeline(const diagnose::Diagnosis& d, const std::vector<ScannedLog>& logs) {
  std::vector<const ScannedLog*> rows;
  for (const auto& log : logs) rows.push_back(&log);
  const auto key = [](const ScannedLog* log) {
    return std::tuple(log->findings.empty(), !log->rank, log->rank.value_or(0));
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto* a, const auto* b) { return key(a) < key(b); });
  const std::size_t left_out = rows.size() > kMostRows ? rows.size() - kMostRows : 0;
  rows.resize(rows.size() - left_out);
  std::sort(rows.begin(), rows.end(), [&](const auto* a, const auto* b) {
    return std::tuple(!a->rank, a->rank.value_or(0), a->name) <
           std::tuple(!b->rank, b->rank.value_or(0), b->name);
  });
  const Axis axis = axis_of(rows);
  const int height = static_cast<int>(rows.size()) * kRow + 24;
  std::string text =
      fmt::format("<svg width=\"{}\" height=\"{}\" role=\"img\">\n", kLabel + kWidth + 10, height);
  int y = 0;
  for (const ScannedLog* log : rows) {
    text += row(*log, axis, y, d.root && d.root->file == log->name);
    y += kRow;
  }
  const auto wall = [](std::int64_t ms) {
    return format_rfc3339(WallTime(std::chrono::milliseconds(ms)));
  };
  text += fmt::format(
      "<text x=\"{}\" y=\"{}\">{}</text><text x=\"{}\" y=\"{}\" "
      "text-anchor=\"end\">{}</text></svg>\n",
      kLabel, height - 6, axis.by_time ? wall(axis.first) : "first line", kLabel + kWidth,
      height - 6, axis.by_time ? wall(axis.last) : fmt::format("line {}", axis.last));
  if (left_out > 0)
    text += fmt::format("<p>{} logs without findings are not drawn.</p>\n", left_out);
  return text;
}

std::string table_row(std::string_view head, const std::string& cell) {
  return fmt::format("<tr><td><b>{}</b></td><td>{}</td></tr>\n", head, cell);
}

std::string evidence_cell(const diagnose::Evidence& e) {
  return fmt::format("{}:{}{}<pre>{}</pre>", escaped(e.file), e.line,
                     e.count > 1 ? fmt::format(" ({} times)", e.count) : "", escaped(e.text));
}

}  // namespace

std::string diagnosis_html(const diagnose::Diagnosis& d, const std::vector<ScannedLog>& logs) {
  const bool healthy = d.failure_class == diagnose::FailureClass::Healthy;
  std::string rows;
  if (d.root) rows += table_row("Where", evidence_cell(*d.root));
  if (!d.collective.empty()) rows += table_row("Collective", escaped(d.collective));
  if (!d.stacks.empty()) rows += table_row("Stacks", escaped(d.stacks));
  for (const auto& e : d.followed)
    rows += table_row("Also", std::string(name_of(e.failure_class)) + " " + evidence_cell(e));
  if (!d.advice.text.empty())
    rows += table_row("Do",
                      fmt::format("{}: {}", advice_words(d.advice.action), escaped(d.advice.text)));
  for (const std::string& node : d.exclude)
    rows += table_row("", fmt::format("<code>stoker exclude {} --for 24h --reason '{}'</code>",
                                      escaped(node), name_of(d.failure_class)));
  std::string last;
  for (const auto& line : d.last_lines) last += escaped(line) + "\n";
  if (!last.empty()) rows += table_row("Last lines", "<pre>" + last + "</pre>");
  for (const auto& note : d.notes) rows += table_row("Note", escaped(note));
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>"
      "<style>{1}</style></head><body>\n<h1 class=\"{2}\">{0}</h1>\n<p>{3} (confidence {4:.0f} %)"
      "</p>\n<table>\n{5}</table>\n<h2>Ranks</h2>\n{6}</body></html>\n",
      name_of(d.failure_class), kStyle, d.fatal ? "bad" : (healthy ? "good" : "mild"),
      escaped(d.summary), d.confidence * 100, rows, timeline(d, logs));
}

}  // namespace stoker::cli
