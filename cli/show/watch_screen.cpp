// Rows are dealt out one by one, so that every run's state comes before any run's second line.
#include "cli/show/watch_screen.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "cli/top/cells.hpp"

namespace stoker::cli {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// A colour's sequence takes no column; everything else in the text is printable already.
std::string cut(const std::string& line, int columns) {
  std::string out;
  int left = columns;
  for (std::size_t i = 0; i < line.size();) {
    const std::size_t end = line[i] == '\033' ? std::min(line.find('m', i), line.size() - 1) + 1
                                              : std::min(line.find('\033', i), line.size());
    const std::string part = line.substr(i, end - i);
    i = end;
    if (part[0] == '\033') {
      out += part;
      continue;
    }
    const int width = top::width_of(part);
    out += width <= left ? part : top::fit(part, left);
    left = std::max(left - width, 0);
  }
  return out;
}

}  // namespace

std::string watch_screen(const std::vector<std::string>& blocks, ScreenSize size) {
  std::vector<std::vector<std::string>> all;
  std::size_t total = 0;
  for (const std::string& block : blocks) {
    all.push_back(lines_of(block));
    total += all.back().size();
  }
  const auto rows = static_cast<std::size_t>(std::max(size.rows - 1, 1));
  const bool fits = total <= rows;
  const std::size_t room = fits ? total : std::max<std::size_t>(rows - 1, 1);
  std::vector<std::size_t> shown(all.size(), 0);
  std::size_t used = 0;
  for (std::size_t line = 0; used < room; ++line)
    for (std::size_t i = 0; i < all.size() && used < room; ++i)
      if (line < all[i].size()) {
        ++shown[i];
        ++used;
      }
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t line = 0; line < shown[i]; ++line)
      text += cut(all[i][line], size.columns) + "\n";
  if (fits || rows < 2) return text;
  const auto hidden = std::count(shown.begin(), shown.end(), 0);
  const std::string rest =
      hidden > 0 ? fmt::format("{} more runs", hidden) : fmt::format("{} more lines", total - used);
  return text + cut("... " + rest + ": stoker top shows them", size.columns) + "\n";
}

}  // namespace stoker::cli
