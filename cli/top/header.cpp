// The head of every page: is the daemon well, is what stands below still true, what is wrong with
// the site as a whole.
#include <cmath>
#include <fmt/format.h>
#include <map>

#include "cli/doctor/failing_sinks.hpp"
#include "cli/top/pages.hpp"

namespace stoker::cli::top {
namespace {

constexpr Duration kHangs = 2s;
constexpr std::size_t kMostSiteLines = 2;  // of each kind

std::string clock_of(WallTime now) {
  return format_rfc3339(now).substr(11);  // "05:00:00Z"
}

std::string reach_word(Reach reach) {
  switch (reach) {
    case Reach::Answered: return "daemon ok";
    case Reach::Away: return "NO DAEMON";
    case Reach::Barred: return "daemon of another user";
    case Reach::Stuck: return "DAEMON STUCK";
    case Reach::Busy:
    case Reach::Silent: return "DAEMON SILENT";
  }
  return "";
}

Shade reach_shade(Reach reach) {
  if (reach == Reach::Answered) return Shade::Good;
  return reach == Reach::Barred ? Shade::Warn : Shade::Bad;
}

// "3 runs: 1 held, 2 training"
std::string count_of_runs(const View& view) {
  std::map<std::string, int> states;
  for (const wire::StatusDocument& run : view.runs) ++states[run.state];
  std::string text = fmt::format("{} {}", view.runs.size(), view.runs.size() == 1 ? "run" : "runs");
  std::string between = ": ";
  for (const auto& [state, count] : states) {
    text += fmt::format("{}{} {}", between, count, state);
    between = ", ";
  }
  return text;
}

std::size_t open_alerts(const View& view) {
  std::size_t open = 0;
  const auto add = [&open](const std::vector<wire::StatusAlert>& alerts) {
    for (const wire::StatusAlert& alert : alerts) open += alert.acknowledged ? 0 : 1;
  };
  add(view.alerts);
  for (const wire::StatusDocument& run : view.runs) add(run.alerts);
  return open;
}

// "published 12s ago", of the freshest document.
std::string last_published(const View& view) {
  double youngest = INFINITY;
  for (const wire::StatusDocument& run : view.runs)
    if (parse_rfc3339(run.published)) youngest = std::min(youngest, age_of(run, view.now));
  return std::isfinite(youngest) ? "this was published " + brief(youngest) + " ago"
                                 : "this is what it last published";
}

std::string stale_banner(const View& view) {
  if (view.unread >= kHangs)
    return "STALE: the files of the runs have not been read for " + brief(to_seconds(view.unread)) +
           ": a file system does not answer";
  const std::string old = last_published(view);
  switch (view.reach) {
    case Reach::Answered:
    case Reach::Barred: return "";
    case Reach::Away:
      return "STALE: no daemon is running; " + old + ". Start it: stokerd --state " + view.state +
             " &";
    case Reach::Stuck:
      return "STALE: the daemon cannot write its journal (" + view.trouble + "); " + old;
    case Reach::Busy:
    case Reach::Silent:
      return "STALE: the daemon has not answered for " + brief(to_seconds(view.silent)) + "; " +
             old;
  }
  return "";
}

}  // namespace

std::vector<Line> header_lines(const View& view, int columns) {
  Line title = {{"stoker top  ", Shade::Bold},
                {reach_word(view.reach) + "  ", reach_shade(view.reach)}};
  if (const std::size_t open = open_alerts(view); open > 0)
    title.push_back({fmt::format("{} {}  ", open, open == 1 ? "alert" : "alerts"), Shade::Bad});
  title.push_back({count_of_runs(view)});
  int used = 2;  // the clock is the least of it
  for (const Span& span : title) used += width_of(span.text);
  if (const std::string clock = clock_of(view.now); used + width_of(clock) <= columns)
    title.push_back({"  " + clock, Shade::Dim});
  std::vector<Line> lines = {title};
  if (const std::string banner = stale_banner(view); !banner.empty())
    add_wrapped(lines, banner, 0, columns, Shade::Bad);
  for (std::size_t i = 0; i < view.alerts.size() && i < kMostSiteLines; ++i)
    lines.push_back({{"site: " + view.alerts[i].severity + " " + view.alerts[i].summary + " [" +
                          view.alerts[i].id + "]",
                      view.alerts[i].severity == "critical" ? Shade::Bad : Shade::Warn}});
  for (std::size_t i = 0; i < view.sinks.size() && i < kMostSiteLines; ++i)
    lines.push_back({{failing_line(view.sinks[i]), Shade::Warn}});
  for (std::size_t i = 0; i < view.unreadable.size() && i < kMostSiteLines; ++i)
    lines.push_back({{view.unreadable[i], Shade::Bad}});
  return lines;
}

Shade shade_of_state(std::string_view state) {
  if (state == "training" || state == "finished") return Shade::Good;
  if (state == "held" || state == "suspect") return Shade::Bad;
  if (state == "recovering" || state == "stopping") return Shade::Warn;
  return Shade::Info;
}

std::string brief(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "?";
  const double shown = seconds >= 10 ? std::floor(seconds) : seconds;
  std::string text;
  const std::string words = format_duration(from_seconds(shown));
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == ' ') continue;
    text += words[i];
    if (words.compare(i, 3, "min") == 0) i += 2;
  }
  return text;
}

double age_of(const wire::StatusDocument& status, WallTime now) {
  const auto at = parse_rfc3339(status.published);
  return at && *at < now ? to_seconds(now - *at) : 0;
}

void add_wrapped(std::vector<Line>& lines, std::string_view text, int indent, int columns,
                 Shade shade) {
  const int room = columns - indent;
  const std::string blanks(static_cast<std::size_t>(room >= 8 ? indent : 0), ' ');
  for (const std::string& line : wrap(text, room >= 8 ? room : columns))
    lines.push_back({{blanks + line, shade}});
}

}  // namespace stoker::cli::top
