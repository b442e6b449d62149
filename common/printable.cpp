// What a terminal obeys, as bytes.
#include "common/printable.hpp"

#include <algorithm>
#include <unistd.h>

namespace stoker {
namespace {

// A character beyond ASCII that a terminal obeys or that reorders what a person reads: the controls
// U+0080..U+009F, line and paragraph separators, and everything bidirectional (Unicode TR 9).
bool is_command(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 2)
    return (byte(0) == 0xC2 && byte(1) < 0xA0) || (byte(0) == 0xD8 && byte(1) == 0x9C);  // U+061C
  if (character.size() != 3 || byte(0) != 0xE2) return false;
  const bool marks = byte(1) == 0x80 && ((byte(2) >= 0xA8 && byte(2) <= 0xAE) ||  // U+2028..202E
                                         byte(2) == 0x8E || byte(2) == 0x8F);     // U+200E, U+200F
  const bool isolates = byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9;    // U+2066..2069
  return marks || isolates;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    std::size_t more = c >= 0xF0 && c < 0xF8   ? 3
                       : c >= 0xE0 && c < 0xF0 ? 2
                       : c >= 0xC2 && c < 0xE0 ? 1
                                               : 0;
    bool good = c < 0x80 || more > 0;
    for (std::size_t k = 1; good && k <= more; ++k)
      good = i + k < text.size() && (static_cast<unsigned char>(text[i + k]) & 0xC0) == 0x80;
    if (good && is_command(text.substr(i, more + 1))) {
      out += '?';
      i += more + 1;
    } else if (!good) {
      out += '?';
      ++i;
    } else if (c < 0x20 || c == 0x7F) {
      out += ' ';
      ++i;
    } else {
      out += text.substr(i, more + 1);
      i += more + 1;
    }
  }
  return out;
}

std::string printable_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += printable(text.substr(0, end));
    if (end == text.size()) break;
    out += '\n';
    text.remove_prefix(end + 1);
  }
  return out;
}

void tell_stderr(std::string_view line) {
  const std::string text = printable(line) + "\n";
  // A reader that has gone away must not end what is going on: an error is ignored on purpose.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace stoker
