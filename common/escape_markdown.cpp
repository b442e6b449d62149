#include "common/escape_markdown.hpp"

namespace stoker {
namespace {

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (static_cast<unsigned char>(c) & 0x80u) != 0;
}

// Whether c means something here, between `before` and `after` (0 = the text ends there).
bool is_markup(char before, char c, char after) {
  switch (c) {
    case '\\':
    case '`':
    case '*': return true;
    case '~': return before == '~' || after == '~';
    case '_': return !is_word(before) || !is_word(after);  // rank_crash is one word
    case '<': return is_word(after) || after == '/' || after == '!' || after == '?';
    case '(':
    case '[': return before == ']';  // n[01-04] is no link
    case '&': return is_word(after) || after == '#';
    default: return false;
  }
}

}  // namespace

std::string escape_markdown(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char before = i == 0 ? '\0' : text[i - 1];
    const char after = i + 1 == text.size() ? '\0' : text[i + 1];
    if (is_markup(before, text[i], after)) out += '\\';
    out += text[i];
  }
  return out;
}

}  // namespace stoker
