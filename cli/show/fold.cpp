// A line is blanks and words by turns; the second word is where its value begins.
#include "cli/show/fold.hpp"

#include <algorithm>
#include <unistd.h>

#include "cli/show/screen_size.hpp"
#include "cli/top/cells.hpp"

namespace stoker::cli {
namespace {

int width_without_colours(std::string_view text) {
  std::string bare;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033')
      i = std::min(text.find('m', i), text.size());
    else
      bare += text[i];
  }
  return top::width_of(bare);
}

// Of the lines below the first: none of the line itself may be left of its value.
int indent_of(std::string_view line, int columns) {
  constexpr int kPlain = 4;
  const std::size_t label = line.find_first_not_of(' ');
  if (label == 0 || label == std::string_view::npos) return kPlain;
  const std::size_t value = line.find_first_not_of(' ', line.find(' ', label));
  const int indent =
      value == std::string_view::npos ? kPlain : width_without_colours(line.substr(0, value));
  return indent <= columns / 2 ? indent : kPlain;
}

void fold_line(std::string_view line, int columns, std::string& out) {
  const int indent = indent_of(line, columns);
  int used = 0;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t word = std::min(line.find_first_not_of(' ', at), line.size());
    const std::size_t end = std::min(line.find(' ', word), line.size());
    const int width = width_without_colours(line.substr(at, end - at));
    if (used > indent && used + width > columns) {
      out += "\n" + std::string(static_cast<std::size_t>(indent), ' ');
      used = indent;
      at = word;
      continue;
    }
    out += line.substr(at, end - at);
    used += width;
    at = end;
  }
}

}  // namespace

std::string folded(std::string_view text, int columns) {
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    fold_line(text.substr(begin, end - begin), columns, out);
    if (end < text.size()) out += '\n';
    begin = end + 1;
  }
  return out;
}

std::string for_terminal(const Context& context, std::string text) {
  if (::isatty(STDOUT_FILENO) != 1) return text;
  return folded(text, screen_size(context.environment, STDOUT_FILENO).columns);
}

}  // namespace stoker::cli
