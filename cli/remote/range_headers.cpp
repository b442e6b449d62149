#include "cli/remote/range_headers.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

namespace stoker::cli {
namespace {

constexpr std::size_t kLongestHeader = 1024;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == '\r' || text.back() == '\n' || text.back() == ' '))
    text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "bytes 100-199/1000", "bytes */1000".
void take_content_range(std::string_view text, RangeAnswer& answer) {
  if (!text.starts_with("bytes ")) return;
  text.remove_prefix(6);
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return;
  answer.total = number(text.substr(slash + 1));
  const auto dash = text.substr(0, slash).find('-');
  if (dash == std::string_view::npos) return;
  answer.begin = number(text.substr(0, dash)).value_or(UINT64_MAX);
}

bool is_one_line(std::string_view value) {
  return std::none_of(value.begin(), value.end(),
                      [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

}  // namespace

void RangeHeaders::take(std::string_view line) {
  line = line.substr(0, kLongestHeader);
  if (line.starts_with("HTTP/")) {
    *this = {};
    return;
  }
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return;
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string value(trimmed(line.substr(colon + 1)));
  if (!is_one_line(value)) return;  // etag and date are sent back in a header of ours
  if (name == "content-range") {
    take_content_range(value, answer);
    ranged = true;
  }
  if (name == "etag") answer.etag = value;
  if (name == "last-modified") answer.modified = value;
  if (name == "date") date = value;
  if (name == "content-encoding" && value != "identity") answer.encoding = value;
}

}  // namespace stoker::cli
