// What a terminal obeys, as bytes.
#include "common/printable.hpp"

#include <algorithm>
#include <iterator>
#include <unistd.h>
#include <utility>

namespace stoker {
namespace {

// A character beyond ASCII that a terminal obeys, that reorders what a person reads or that is not
// seen at all, so that two names look the same.
bool is_harmful(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kHarmful[] = {
      {0x80, 0x9F},       {0xAD, 0xAD},      // controls, the soft hyphen
      {0x34F, 0x34F},     {0x61C, 0x61C},    // a joiner, an Arabic mark
      {0x115F, 0x1160},   {0x3164, 0x3164},  // Hangul fillers, which look like blanks
      {0xFFA0, 0xFFA0},   {0x2800, 0x2800},  // likewise; the empty Braille pattern
      {0x17B4, 0x17B5},   {0x180B, 0x180F},  // vowels and selectors that are not seen
      {0x200B, 0x200F},   {0x2028, 0x202E},  // without width, bidirectional (Unicode TR 9), lines
      {0x2060, 0x206F},   {0xFE00, 0xFE0F},  // likewise; selectors of variants
      {0xFEFF, 0xFEFF},   {0xFFF0, 0xFFFB},  // the byte order mark, annotations
      {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}};  // of music; tags, selectors
  return std::any_of(std::begin(kHarmful), std::end(kHarmful),
                     [c](const auto& range) { return c >= range.first && c <= range.second; });
}

// Of a whole character beyond ASCII, as UTF-8.
char32_t code_of(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  char32_t code = lead & (0x7Fu >> character.size());
  for (const char c : character.substr(1))
    code = code << 6 | (static_cast<unsigned char>(c) & 0x3F);
  return code;
}

// No longer form of a character that has a shorter one, no half of a pair, nothing beyond Unicode
// (RFC 3629).
bool is_shortest(char32_t code, std::size_t more) {
  if (more == 1) return code >= 0x80;
  if (more == 2) return code >= 0x800 && (code < 0xD800 || code > 0xDFFF);
  return code >= 0x10000 && code <= 0x10FFFF;
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
    const char32_t code = good && more > 0 ? code_of(text.substr(i, more + 1)) : 0;
    good = good && (more == 0 || is_shortest(code, more));
    if (good && more > 0 && is_harmful(code)) {
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
