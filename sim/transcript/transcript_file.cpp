#include "sim/transcript/transcript_file.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace stoker::sim {
namespace {

constexpr std::size_t kIndent = 4, kDeeper = 8, kColumns = 120;

bool continues_a_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;  // UTF-8
}

// Bytes of the longest beginning of `text` that fits: all of it, or up to the last space that does
// (to the first one, where the first word is longer).
std::size_t fitting(std::string_view text, std::size_t columns) {
  std::size_t used = 0, space = std::string_view::npos;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (continues_a_character(text[i])) continue;
    if (text[i] == ' ' && used > 0) {
      if (used <= columns || space == std::string_view::npos) space = i;
    }
    if (++used > columns && space != std::string_view::npos) return space;
  }
  return text.size();
}

std::string_view take_line(std::string_view& rest) {
  const std::size_t end = std::min(rest.find('\n'), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return line;
}

}  // namespace

std::string laid_out(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    std::string_view line = take_line(text);
    const std::size_t own = std::min(line.find_first_not_of(' '), line.size());
    line.remove_prefix(own);
    for (std::size_t indent = kIndent + own; !line.empty(); indent = kIndent + own + kDeeper) {
      const std::size_t size = fitting(line, kColumns - std::min(indent, kColumns / 2));
      out += std::string(indent, ' ') + std::string(line.substr(0, size)) + "\n";
      line.remove_prefix(std::min(size + 1, line.size()));  // and its space
    }
  }
  return out;
}

Result<std::string> rerun_file(std::string_view file, const std::string& name, const RunLine& run) {
  std::string out;
  std::string above;  // comments and empty lines: they belong to the input line that follows
  for (std::size_t number = 1; !file.empty(); ++number) {
    std::string_view line = take_line(file);
    if (line.starts_with(' ')) continue;  // an old answer
    above += std::string(line) + "\n";
    if (line.empty() || line.starts_with('#')) continue;
    const std::size_t first = number;
    std::string whole(line);
    while (whole.ends_with('\\') && !file.empty()) {
      whole.pop_back();
      line = take_line(file);
      ++number;
      above += std::string(line) + "\n";
      whole += line.substr(std::min(line.find_first_not_of(' '), line.size()));
    }
    const auto answer = run(whole);
    if (!answer) return fail(answer.error().message(), fmt::format("{}:{}", name, first));
    out += laid_out(answer->meanwhile) + above + laid_out(answer->then);
    above.clear();
  }
  return out + above;
}

}  // namespace stoker::sim
