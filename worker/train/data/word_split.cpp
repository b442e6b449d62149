// ASCII takes a table; other characters are decoded and looked up.
#include "worker/train/data/word_split.hpp"

#include <array>
#include <cstdint>

#include "worker/train/data/unicode_ranges.hpp"

namespace stoker::train {
namespace {

enum class Class : std::uint8_t { Letter, Number, Space, Other };

struct Character {
  Class kind = Class::Other;
  std::size_t bytes = 1;
};

Class classify(char32_t code) {
  if (is_letter(code)) return Class::Letter;
  if (is_number(code)) return Class::Number;
  return is_space(code) ? Class::Space : Class::Other;
}

std::array<Class, 128> ascii_classes() {
  std::array<Class, 128> classes{};
  for (std::size_t c = 0; c < classes.size(); ++c) classes[c] = classify(static_cast<char32_t>(c));
  return classes;
}

// Decodes one UTF-8 character; an invalid byte is a character of its own.
Character decode(std::string_view text, std::size_t at) {
  static const std::array<Class, 128> kAscii = ascii_classes();
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return {kAscii[lead], 1};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + length > text.size()) return {};
  char32_t code = lead & (0xFFu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(at + i) & 0x3Fu);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[length] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return {};
  return {classify(code), length};
}

// The end of the run of `kind` that begins at `at`.
std::size_t run_end(std::string_view text, std::size_t at, Class kind) {
  while (at < text.size()) {
    const Character c = decode(text, at);
    if (c.kind != kind) break;
    at += c.bytes;
  }
  return at;
}

std::size_t contraction(std::string_view text) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(ending)) return ending.size();
  return 0;
}

}  // namespace

std::size_t first_word(std::string_view text) {
  if (text.empty()) return 0;
  if (const std::size_t n = contraction(text)) return n;
  const Character first = decode(text, 0);
  if (first.kind != Class::Space) return run_end(text, 0, first.kind);
  if (text[0] == ' ' && text.size() > 1) {
    const Character second = decode(text, 1);
    if (second.kind != Class::Space) return run_end(text, 1, second.kind);
  }
  // White space: all of it at the end of the text, else all but its last character, which goes with
  // what follows.
  std::size_t last = 0;
  std::size_t end = 0;
  while (end < text.size()) {
    const Character c = decode(text, end);
    if (c.kind != Class::Space) break;
    last = end;
    end += c.bytes;
  }
  return end == text.size() || last == 0 ? end : last;
}

std::size_t safe_cut(std::string_view text) {
  // Does a white space character end before byte i? In UTF-8 it has one, two or three bytes.
  const auto space_before = [&](std::size_t i) {
    for (std::size_t n = 1; n <= 3 && n <= i; ++n) {
      const Character c = decode(text, i - n);
      if (c.kind == Class::Space && c.bytes == n) return true;
    }
    return false;
  };
  for (std::size_t i = text.size(); i-- > 1;)
    if ((text[i] == ' ' || text[i] == '\n') && !space_before(i)) return i;
  return text.size();
}

}  // namespace stoker::train
