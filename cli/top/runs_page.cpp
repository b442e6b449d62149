// The first screen. Columns of the table are as wide as what stands in them; where the terminal is
// too narrow for all, those of the least worth are left out, and the loss's curve takes what is
// left over.
#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "cli/show/fold.hpp"
#include "cli/show/render_status.hpp"
#include "cli/top/pages.hpp"
#include "cli/top/run_order.hpp"

namespace stoker::cli::top {
namespace {

enum Column { Name, State, Alerts, Eta, Loss, Curve, Step, Checkpoint, Budget, Age, kColumns };
constexpr std::array<std::string_view, kColumns> kTitles = {
    "RUN", "STATE", "!", "ETA", "LOSS", "LOSS, RECENT", "STEP", "CKPT", "BUDGET", "AGE"};
// In the order in which they get room.
constexpr std::array kWorth = {Name,       State, Eta,    Alerts, Step,
                               Checkpoint, Loss,  Budget, Age,    Curve};
constexpr int kMarker = 2, kLongestName = 24, kShortestCurve = 6, kLongestCurve = 60;
constexpr double kOld = 60;  // seconds: older documents are marked

using Row = std::array<std::string, kColumns>;

std::string step_text(const wire::StatusDocument& s) {
  if (!(s.step_s > 0)) return "-";
  if (!(s.step_norm_s > 0)) return brief(s.step_s);
  return fmt::format("{} {:+.0f}%", brief(s.step_s),
                     std::clamp(100 * (s.step_s / s.step_norm_s - 1), -100.0, 99999.0));
}

Row row_of(const wire::StatusDocument& s, WallTime now) {
  const double age = age_of(s, now);
  const auto open = std::count_if(s.alerts.begin(), s.alerts.end(),
                                  [](const wire::StatusAlert& a) { return !a.acknowledged; });
  Row row;
  row[Name] = s.run;
  row[State] = s.state;
  row[Alerts] = open > 0 ? std::to_string(open) : "";
  row[Eta] = s.eta_s ? brief(*s.eta_s) : "-";
  row[Loss] = s.loss ? fmt::format("{:.4g}", *s.loss) : "-";
  row[Curve] = s.loss_history.size() > 1 ? sparkline(s.loss_history) : "";
  row[Step] = step_text(s);
  row[Checkpoint] = s.checkpoint ? brief(s.checkpoint->age_s + age) : "none";
  row[Budget] = fmt::format("{}/{}", s.budget.restarts_left, s.budget.restarts_total);
  row[Age] = parse_rfc3339(s.published) ? brief(age) : "?";
  return row;
}

// Widths by what fits into `columns`; 0 = left out.
std::array<int, kColumns> widths_of(const std::vector<Row>& rows, int columns) {
  std::array<int, kColumns> wanted{}, widths{};
  for (std::size_t c = 0; c < kColumns; ++c) {
    wanted[c] = static_cast<int>(kTitles[c].size());
    for (const Row& row : rows) wanted[c] = std::max(wanted[c], width_of(row[c]));
  }
  wanted[Name] = std::min(wanted[Name], kLongestName);
  int left = columns - kMarker;
  for (const Column c : kWorth) {
    if (c == Curve) {
      const int room = std::min({left - 1, wanted[Curve], kLongestCurve});
      if (room >= kShortestCurve) widths[Curve] = room;
    } else if (c == Name) {
      // The state must stand beside it, if only with its first letters.
      widths[Name] =
          std::clamp(wanted[Name], 1, std::max(left - 1 - std::min(wanted[State], 8), 3));
      left -= widths[Name];
    } else if (c == State) {
      widths[State] = std::max(std::min(wanted[State], left - 1), 0);
      left -= widths[State] + 1;
    } else if (wanted[c] + 1 <= left) {
      widths[c] = wanted[c];
      left -= wanted[c] + 1;
    }
  }
  return widths;
}

// The newest points are the last; they are what a narrow column keeps.
std::string newest_points(const std::string& curve, int width) {
  const auto room = static_cast<std::size_t>(width);
  return curve.size() > room ? curve.substr(curve.size() - room) : curve;
}

Shade shade_of(std::size_t column, const wire::StatusDocument& s, WallTime now) {
  switch (column) {
    case State: return shade_of_state(s.state);
    case Alerts: return Shade::Bad;
    case Step: return s.slow && s.slow->now ? Shade::Warn : Shade::Plain;
    case Age: return age_of(s, now) > kOld || s.stale ? Shade::Warn : Shade::Dim;
    default: return Shade::Plain;
  }
}

Line line_of(const Row& row, const std::array<int, kColumns>& widths) {
  Line line;
  for (std::size_t c = 0; c < kColumns; ++c)
    if (widths[c] > 0)
      line.push_back(
          {fit(c == Curve ? newest_points(row[c], widths[c]) : row[c], widths[c]) + " "});
  return line;
}

}  // namespace

Table run_table(const View& view, const Selection& selection, int columns) {
  const auto runs = ordered(view, selection.filter);
  std::vector<Row> rows;
  for (const auto* run : runs) rows.push_back(row_of(*run, view.now));
  const auto widths = widths_of(rows, columns);
  Row titles;
  for (std::size_t c = 0; c < kColumns; ++c) titles[c] = kTitles[c];
  Table table;
  titles[Curve] = titles[Curve].substr(0, static_cast<std::size_t>(widths[Curve]));
  table.head = line_of(titles, widths);
  table.head.insert(table.head.begin(), {std::string(kMarker, ' ')});
  const auto* chosen = chosen_run(view, selection);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Line line = line_of(rows[i], widths);
    std::size_t at = 0;
    for (std::size_t c = 0; c < kColumns; ++c)
      if (widths[c] > 0) line[at++].shade = shade_of(c, *runs[i], view.now);
    line.insert(line.begin(), {runs[i] == chosen ? "> " : "  "});
    if (runs[i] == chosen) table.chosen = i;
    table.runs.push_back(std::move(line));
  }
  return table;
}

namespace {

// Of a row of status.
Shade shade_of_row(std::string_view row) {
  if (!row.starts_with("  alert ")) return Shade::Plain;
  const std::size_t severity = std::min(row.find_first_not_of(' ', 8), row.size());
  return row.substr(severity).starts_with("critical") ? Shade::Bad : Shade::Warn;
}

}  // namespace

std::vector<Line> run_lines(const View& view, const Selection& selection, int columns) {
  std::vector<Line> lines;
  const auto* run = chosen_run(view, selection);
  if (run == nullptr) {
    add_wrapped(lines,
                selection.filter.empty()
                    ? "no runs; `stoker run RUN.yaml` puts one under supervision"
                    : "no run matches \"" + selection.filter + "\"; Esc shows all",
                0, columns);
    return lines;
  }
  const Console plain([](std::string_view) {}, [](std::string_view) {});
  const std::string text = render_status(*run, view.now, plain);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    const Shade shade = begin == 0 ? shade_of_state(run->state) : shade_of_row(line);
    const std::string rows = folded(line, columns) + "\n";
    for (std::size_t at = 0; at < rows.size(); at = rows.find('\n', at) + 1)
      lines.push_back({{rows.substr(at, rows.find('\n', at) - at), shade}});
    begin = end + 1;
  }
  return lines;
}

}  // namespace stoker::cli::top
