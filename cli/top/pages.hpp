// The parts of the screen, each as lines of at most `columns`; layout.cpp puts them together.
// To add a page: its lines here, its name and place in selection.hpp, its case in layout.cpp.
#pragma once

#include <string>
#include <vector>

#include "cli/top/cells.hpp"
#include "cli/top/selection.hpp"
#include "cli/top/view.hpp"

namespace stoker::cli::top {

// Title, health of the daemon, what is stale, alerts of the site, sinks that fail.
std::vector<Line> header_lines(const View& view, int columns);

// The table's head and one line a run, worst first; `chosen` is the line of the cursor.
struct Table {
  Line head;
  std::vector<Line> runs;
  std::size_t chosen = 0;
};
Table run_table(const View& view, const Selection& selection, int columns);
// The chosen run as `stoker status` shows it.
std::vector<Line> run_lines(const View& view, const Selection& selection, int columns);

std::vector<Line> why_lines(const View& view, const Selection& selection, int columns);
std::vector<Line> node_lines(const View& view, const Selection& selection, int columns);
std::vector<Line> log_lines(const View& view, const Selection& selection, int columns);
std::vector<Line> event_lines(const View& view, const Selection& selection, int columns);

// All alerts of the run, and which of the lines belong to the chosen one.
struct AlertLines {
  std::vector<Line> lines;
  std::size_t begin = 0, end = 0;
};
AlertLines alert_lines(const View& view, const Selection& selection, int columns);

// Commands of `after:` and how far they are.
std::vector<Line> follower_lines(const View& view, const Selection& selection, int columns);

std::vector<Line> help_lines(int columns);

// The last lines of the screen: a question, a message, the filter that is typed, or the keys.
std::vector<Line> footer_lines(const Selection& selection, int columns);

// ---- words that several parts use
Shade shade_of_state(std::string_view state);
// "2.0s", "13m20s", "16h40m", "1d2h"; "?" for what is no duration.
std::string brief(double seconds);
// How old the document is: 0 when its time is not known.
double age_of(const wire::StatusDocument& status, WallTime now);
// `text` in lines behind `indent` blanks.
void add_wrapped(std::vector<Line>& lines, std::string_view text, int indent, int columns,
                 Shade shade = Shade::Plain);

}  // namespace stoker::cli::top
