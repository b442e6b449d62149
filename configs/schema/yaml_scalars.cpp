// std::from_chars throughout: no locale, no partial matches.
#include "configs/schema/yaml_scalars.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace stoker::configs {
namespace {

// Removes underscores that stand between two digits; false when one stands elsewhere.
bool without_underscores(std::string_view text, std::string& out) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() || !digit(text[i - 1]) || !digit(text[i + 1])) {
      return false;
    }
  }
  return true;
}

template <class T>
bool parse_all(std::string_view text, T& value) {
  std::string digits;
  if (text.size() > 64 || !without_underscores(text, digits)) return false;
  const char* first = digits.data();
  const char* last = first + digits.size();
  if (digits.size() > 1 && digits[0] == '+') ++first;
  const auto [end, error] = std::from_chars(first, last, value);
  return error == std::errc{} && end == last;
}

struct SizeUnit {
  std::string_view name;
  double bytes;
};
constexpr std::array kSizeUnits{
    SizeUnit{"B", 1},        SizeUnit{"KiB", 1024.0}, SizeUnit{"MiB", 1048576.0},
    SizeUnit{"GiB", 0x1p30}, SizeUnit{"TiB", 0x1p40}, SizeUnit{"PiB", 0x1p50},
    SizeUnit{"kB", 1e3},     SizeUnit{"KB", 1e3},     SizeUnit{"MB", 1e6},
    SizeUnit{"GB", 1e9},     SizeUnit{"TB", 1e12},    SizeUnit{"PB", 1e15},
};

}  // namespace

Result<std::int64_t> parse_whole(std::string_view text) {
  std::int64_t value = 0;
  if (parse_all(text, value)) return value;
  return fail(fmt::format("expected a whole number, got \"{}\"", text));
}

Result<std::uint64_t> parse_count(std::string_view text) {
  std::uint64_t value = 0;
  if (parse_all(text, value)) return value;
  if (!text.empty() && text.size() < 64 &&
      text.find_first_not_of("0123456789") == std::string_view::npos)
    return fail(fmt::format("{} is too large", text));
  return fail(fmt::format("expected a whole number that is not negative, got \"{}\"", text));
}

Result<double> parse_real(std::string_view text) {
  double value = 0;
  if (parse_all(text, value) && std::isfinite(value)) return value;
  return fail(fmt::format("expected a number like 0.1 or 6.0e-4, got \"{}\"", text));
}

Result<bool> parse_truth(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return fail(fmt::format("expected true or false, got \"{}\"", text));
}

Result<std::uint64_t> parse_size(std::string_view text) {
  const auto letters = std::min(text.find_first_not_of("0123456789._"), text.size());
  double number = 0;
  if (letters > 0 && parse_all(text.substr(0, letters), number)) {
    for (const SizeUnit& unit : kSizeUnits)
      if (unit.name == text.substr(letters)) {
        const double bytes = number * unit.bytes;
        if (bytes < 9e18) return static_cast<std::uint64_t>(std::llround(bytes));
      }
  }
  return fail(fmt::format("expected a size like 512MiB or 20GB, got \"{}\"", text));
}

Result<double> parse_share(std::string_view text) {
  double value = 0;
  const bool percent = text.ends_with('%');
  if (parse_all(percent ? text.substr(0, text.size() - 1) : text, value)) {
    if (percent) value /= 100;
    if (value >= 0 && value <= 1) return value;
  }
  return fail(fmt::format("expected a share like 5%, at most 100%, got \"{}\"", text));
}

std::string format_size(std::uint64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (unit + 1 < kUnits.size() && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, kUnits[unit]);
}

std::string format_share(double share) {
  return fmt::format("{:.10g}%", std::round(share * 1e10) / 1e8);
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  if (name.size() > 64) return best;
  for (const std::string& candidate : candidates) {
    const std::size_t n = name.size();
    const std::size_t m = candidate.size();
    std::vector<std::vector<std::size_t>> d(n + 1, std::vector<std::size_t>(m + 1));
    for (std::size_t i = 0; i <= n; ++i) d[i][0] = i;
    for (std::size_t j = 0; j <= m; ++j) d[0][j] = j;
    for (std::size_t i = 1; i <= n; ++i)
      for (std::size_t j = 1; j <= m; ++j) {
        const std::size_t swap_cost = name[i - 1] == candidate[j - 1] ? 0 : 1;
        d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + swap_cost});
        if (i > 1 && j > 1 && name[i - 1] == candidate[j - 2] && name[i - 2] == candidate[j - 1])
          d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    if (d[n][m] < best_distance && d[n][m] < std::max(n, m)) {
      best_distance = d[n][m];
      best = candidate;
    }
  }
  return best;
}

}  // namespace stoker::configs
