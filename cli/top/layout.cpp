// From top to bottom: head, page, foot. Where rows are few the page keeps at least one, then the
// foot, then the head.
#include "cli/top/layout.hpp"

#include <algorithm>

#include "cli/top/pages.hpp"

namespace stoker::cli::top {
namespace {

constexpr int kLeastPreview = 3;  // rows of the chosen run below the table

struct Room {
  int begin = 0, rows = 0;
};

// Draws head and foot; says what is left between them.
Room frame_of(Cells& cells, std::vector<Line> head, std::vector<Line> foot, bool asking) {
  const int rows = cells.rows();
  int foot_rows = static_cast<int>(foot.size());
  // A question must be seen whole, as far as there is room; everything else leaves the page a row.
  foot_rows = std::min(foot_rows, asking ? rows : std::max(rows - 1, 0));
  const int head_rows = std::clamp(rows - foot_rows - 2, 0, static_cast<int>(head.size()));
  for (int row = 0; row < head_rows; ++row) cells.put(row, 0, head[static_cast<std::size_t>(row)]);
  for (int row = 0; row < foot_rows; ++row) {
    const std::size_t from = foot.size() - static_cast<std::size_t>(foot_rows);
    cells.put(rows - foot_rows + row, 0, foot[from + static_cast<std::size_t>(row)]);
    cells.invert(rows - foot_rows + row);
  }
  return {head_rows, std::max(rows - foot_rows - head_rows, 0)};
}

void draw(Cells& cells, const Room& room, const std::vector<Line>& lines, std::size_t from) {
  for (int row = 0; row < room.rows; ++row) {
    const std::size_t line = from + static_cast<std::size_t>(row);
    if (line < lines.size()) cells.put(room.begin + row, 0, lines[line]);
  }
}

// So that [begin, end) is seen, as little moved as possible from `from`.
std::size_t window(std::size_t begin, std::size_t end, std::size_t rows) {
  return end > rows ? std::min(begin, end - rows) : 0;
}

Extent draw_runs(Cells& cells, Room room, const View& view, const Selection& selection) {
  const Table table = run_table(view, selection, cells.columns());
  if (table.runs.empty()) {
    draw(cells, room, run_lines(view, selection, cells.columns()), 0);
    return {};
  }
  if (room.rows > 1) {
    cells.put(room.begin, 0, table.head);
    cells.invert(room.begin);
    room = {room.begin + 1, room.rows - 1};
  }
  const auto runs = static_cast<int>(table.runs.size());
  const int shown = std::min(runs, room.rows);
  const auto rows = static_cast<std::size_t>(shown);
  draw(cells, {room.begin, shown}, table.runs, window(table.chosen, table.chosen + 1, rows));
  const Room below{room.begin + shown + 1, room.rows - shown - 1};
  if (below.rows >= kLeastPreview)
    draw(cells, below, run_lines(view, selection, cells.columns()), 0);
  return {table.runs.size(), rows};
}

Line tabs_of(const View& view, const Selection& selection) {
  const auto* run = chosen_run(view, selection);
  Line line = {{selection.run, Shade::Bold}, {"  "}};
  if (run != nullptr) line.push_back({run->state + "  ", shade_of_state(run->state)});
  for (int page = 1; page <= static_cast<int>(kLastPage); ++page) {
    const std::string name(page_name(static_cast<Page>(page)));
    const bool open = selection.page == static_cast<Page>(page);
    line.push_back({open ? "[" + name + "] " : " " + name + "  ", open ? Shade::Bold : Shade::Dim});
  }
  return line;
}

std::vector<Line> page_lines(const View& view, const Selection& selection, int columns) {
  if (view.detail.run != selection.run) return {{{"reading ...", Shade::Dim}}};
  switch (selection.page) {
    case Page::Runs: return {};
    case Page::Why: return why_lines(view, selection, columns);
    case Page::Nodes: return node_lines(view, selection, columns);
    case Page::Logs: return log_lines(view, selection, columns);
    case Page::Events: return event_lines(view, selection, columns);
    case Page::Alerts: return alert_lines(view, selection, columns).lines;
    case Page::Followers: return follower_lines(view, selection, columns);
  }
  return {};
}

Extent draw_page(Cells& cells, Room room, const View& view, const Selection& selection) {
  if (room.rows > 1) {
    cells.put(room.begin, 0, tabs_of(view, selection));
    room = {room.begin + 1, room.rows - 1};
  }
  const auto rows = static_cast<std::size_t>(room.rows);
  const auto lines = page_lines(view, selection, cells.columns());
  const std::size_t last = lines.size() > rows ? lines.size() - rows : 0;
  std::size_t from = std::min(selection.scroll, last);
  if (selection.page == Page::Logs) from = last - from;
  if (selection.page == Page::Alerts) {
    const AlertLines alerts = alert_lines(view, selection, cells.columns());
    from = window(alerts.begin, alerts.end, rows);
  }
  draw(cells, room, lines, from);
  return {lines.size(), rows};
}

}  // namespace

Frame layout(const View& view, const Selection& selection, int rows, int columns) {
  Frame frame{Cells(rows, columns), {}};
  Cells& cells = frame.cells;
  const Room room =
      frame_of(cells, header_lines(view, cells.columns()), footer_lines(selection, cells.columns()),
               selection.question.has_value());
  if (selection.help)
    draw(cells, room, help_lines(cells.columns()), 0);
  else if (selection.page == Page::Runs)
    frame.extent = draw_runs(cells, room, view, selection);
  else
    frame.extent = draw_page(cells, room, view, selection);
  return frame;
}

}  // namespace stoker::cli::top
