// Scanners of line_scan.hpp: from_chars for the numbers, everything else by hand.
#include "diagnose/input/line_scan.hpp"

#include <charconv>
#include <cmath>

namespace stoker::diagnose {

namespace {
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// "6,785" and "1,234,567": only whole groups of three digits behind a comma.
std::optional<ScannedNumber> scan_grouped(std::string_view text) {
  std::size_t at = 0;
  double value = 0;
  while (at < text.size() && at < 3 && is_digit(text[at])) value = value * 10 + (text[at++] - '0');
  if (at == 0) return std::nullopt;
  std::size_t groups = 0;
  while (at + 3 < text.size() && text[at] == ',' && is_digit(text[at + 1]) &&
         is_digit(text[at + 2]) && is_digit(text[at + 3])) {
    for (std::size_t i = 1; i <= 3; ++i) value = value * 10 + (text[at + i] - '0');
    at += 4;
    ++groups;
  }
  if (groups == 0 || (at < text.size() && is_name(text[at]) && is_digit(text[at])))
    return std::nullopt;
  return ScannedNumber{value, at};
}
}  // namespace

std::string_view trim_left(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  return text;
}

std::string_view trim(std::string_view text) {
  text = trim_left(text);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

std::optional<ScannedNumber> scan_number(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (const auto grouped = scan_grouped(text)) return grouped;
  std::size_t sign = text.front() == '+' ? 1 : 0;
  ScannedNumber number;
  const char* begin = text.data() + sign;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(begin, end, number.value);
  if (parsed.ec == std::errc::result_out_of_range)
    number.value = HUGE_VAL;
  else if (parsed.ec != std::errc{})
    return std::nullopt;
  number.length = static_cast<std::size_t>(parsed.ptr - text.data());
  if (number.length < text.size()) {
    const char next = text[number.length];
    const bool more = number.length + 1 < text.size();
    if ((next == ':' || next == '.') && more && is_digit(text[number.length + 1]))
      return std::nullopt;
  }
  return number;
}

std::optional<std::uint64_t> scan_count(std::string_view text, std::size_t& length) {
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc{}) return std::nullopt;
  length = static_cast<std::size_t>(parsed.ptr - text.data());
  return value;
}

std::string_view without_colours(std::string_view text, std::string& storage) {
  if (text.find('\x1b') == std::string_view::npos) return text;
  storage.clear();
  storage.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b') {
      storage += text[i];
      continue;
    }
    if (i + 1 < text.size() && text[i + 1] == '[') ++i;
    while (i + 1 < text.size() && (is_digit(text[i + 1]) || text[i + 1] == ';')) ++i;
    ++i;  // the letter that ends the sequence
  }
  return storage;
}

std::string_view without_rank_prefix(std::string_view text) {
  for (int i = 0; i < 4; ++i) {
    text = trim_left(text);
    if (text.empty()) break;
    std::size_t cut = 0;
    if (text.front() == '[' || text.front() == '(') {
      const auto close = text.find(text.front() == '[' ? ']' : ')');
      if (close > 64) break;  // npos too
      cut = close + 1;
    } else {
      std::size_t digits = 0;
      while (digits < text.size() && digits < 6 && is_digit(text[digits])) ++digits;
      if (digits == 0 || digits + 1 >= text.size() || text[digits] != ':' ||
          text[digits + 1] != ' ')
        break;
      cut = digits;
    }
    if (cut < text.size() && text[cut] == ':') ++cut;
    text.remove_prefix(cut);
  }
  return trim_left(text);
}

std::size_t find_word(std::string_view text, std::string_view word, std::size_t from) {
  for (auto at = text.find(word, from); at != std::string_view::npos; at = text.find(word, at + 1))
    if (at == 0 || !is_name(text[at - 1])) return at;
  return std::string_view::npos;
}

}  // namespace stoker::diagnose
