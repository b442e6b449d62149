// Digits at fixed places; a stamp is looked for at each place where one could begin.
#include "diagnose/input/line_time.hpp"

#include <algorithm>
#include <array>
#include <chrono>

namespace stoker::diagnose {

namespace {

constexpr std::size_t kLookedAt = 160;  // a stamp stands in this much of a line
constexpr int kLeapYear = 1972;         // of dates without a year
constexpr auto npos = std::string_view::npos;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// `count` digits at the front, taken off; -1: no digits.
int take_digits(std::string_view& text, std::size_t count) {
  if (text.size() < count) return -1;
  int value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_digit(text[i])) return -1;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(count);
  return value;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text[0] != c) return false;
  text.remove_prefix(1);
  return true;
}

std::int64_t to_ms(int year, int month, int day) {
  using namespace std::chrono;
  const sys_days date = std::chrono::year(year) / month / day;
  return std::int64_t{date.time_since_epoch().count()} * 86'400'000;
}

bool is_date(int year, int month, int day) {
  return (std::chrono::year(year) / month / day).ok();
}

// "15:27:02.646": milliseconds of the day.
std::optional<std::int64_t> take_clock(std::string_view& text) {
  const int hour = take_digits(text, 2);
  if (hour < 0 || hour > 23 || !take(text, ':')) return std::nullopt;
  const int minute = take_digits(text, 2);
  if (minute < 0 || minute > 59 || !take(text, ':')) return std::nullopt;
  const int second = take_digits(text, 2);
  if (second < 0 || second > 60) return std::nullopt;
  std::int64_t ms = ((hour * 60 + minute) * 60 + second) * std::int64_t{1000};
  if (text.size() > 1 && (text[0] == '.' || text[0] == ',') && is_digit(text[1])) {
    std::int64_t unit = 100;
    for (text.remove_prefix(1); !text.empty() && is_digit(text[0]); text.remove_prefix(1)) {
      ms += (text[0] - '0') * unit;
      unit /= 10;
    }
  }
  return ms;
}

// "Z", "+08:00", "-0500", " UTC": how far the stamp is ahead of UTC; empty: no zone.
std::optional<std::int64_t> take_zone(std::string_view text) {
  if (take(text, 'Z') || text.starts_with(" UTC")) return 0;
  const int sign = text.starts_with('+') ? 1 : text.starts_with('-') ? -1 : 0;
  if (sign == 0) return std::nullopt;
  text.remove_prefix(1);
  const int hours = take_digits(text, 2);
  take(text, ':');
  const int minutes = take_digits(text, 2);
  if (hours < 0 || hours > 14 || minutes < 0 || minutes > 59) return std::nullopt;
  return sign * (hours * 60 + minutes) * std::int64_t{60'000};
}

std::optional<LineTime> iso_at(std::string_view text) {
  const int year = take_digits(text, 4);
  const char separator = text.empty() ? ' ' : text[0];
  if (year < 2000 || year > 2099 || (separator != '-' && separator != '/')) return std::nullopt;
  text.remove_prefix(1);
  const int month = take_digits(text, 2);
  if (month < 1 || !take(text, separator)) return std::nullopt;
  const int day = take_digits(text, 2);
  if (!is_date(year, month, day) || (!take(text, 'T') && !take(text, ' '))) return std::nullopt;
  const auto clock = take_clock(text);
  if (!clock) return std::nullopt;
  const auto zone = take_zone(text);
  return LineTime{to_ms(year, month, day) + *clock - zone.value_or(0), LineTime::Form::Iso,
                  zone.has_value(), true};
}

int take_month(std::string_view& text) {
  static constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  if (text.size() < 3) return 0;
  for (std::size_t at = 0; at < kMonths.size(); at += 3)
    if (text.starts_with(kMonths.substr(at, 3))) {
      text.remove_prefix(3);
      return static_cast<int>(at / 3) + 1;
    }
  return 0;
}

// "Mar  4 04:25:12 2023", "Dec 30 17:44:08 UTC 2024", "Jun 10 03:09:55".
std::optional<LineTime> month_at(std::string_view text) {
  const int month = take_month(text);
  if (month == 0 || !take(text, ' ')) return std::nullopt;
  const bool one_digit = take(text, ' ');
  int day = take_digits(text, one_digit ? 1 : 2);
  if (day < 0 && !one_digit) day = take_digits(text, 1);
  if (day < 1 || !take(text, ' ')) return std::nullopt;
  const auto clock = take_clock(text);
  if (!clock) return std::nullopt;
  const bool zoned = text.starts_with(" UTC") || text.starts_with(" GMT");
  if (zoned) text.remove_prefix(4);
  if (take(text, ' ')) {
    const int year = take_digits(text, 4);
    if (year >= 2000 && year <= 2099 && (text.empty() || !is_digit(text[0])) &&
        is_date(year, month, day))
      return LineTime{to_ms(year, month, day) + *clock, LineTime::Form::Ctime, zoned, true};
  }
  if (!is_date(kLeapYear, month, day)) return std::nullopt;
  return LineTime{to_ms(kLeapYear, month, day) + *clock, LineTime::Form::Syslog, false, false};
}

std::optional<LineTime> glog_at(std::string_view text) {
  text.remove_prefix(1);
  const int month = take_digits(text, 2);
  const int day = take_digits(text, 2);
  if (month < 1 || day < 1 || !is_date(kLeapYear, month, day) || !take(text, ' '))
    return std::nullopt;
  const auto clock = take_clock(text);
  if (!clock) return std::nullopt;
  return LineTime{to_ms(kLeapYear, month, day) + *clock, LineTime::Form::Glog, false, false};
}

std::optional<LineTime> epoch_in(std::string_view line) {
  auto at = line.find(":::MLLOG");
  if (at == npos) return std::nullopt;
  at = line.find("\"time_ms\": ", at);
  if (at == npos) return std::nullopt;
  std::string_view digits = line.substr(at + 11, 14);
  const int high = take_digits(digits, 6);  // 13 digits: years 2001 to 2286
  const int low = take_digits(digits, 7);
  if (high < 0 || low < 0 || (!digits.empty() && is_digit(digits[0]))) return std::nullopt;
  const std::int64_t ms = high * std::int64_t{10'000'000} + low;
  if (ms > to_ms(2099, 12, 31)) return std::nullopt;
  return LineTime{ms, LineTime::Form::Epoch, true, true};
}

}  // namespace

std::optional<LineTime> read_line_time(std::string_view line) {
  static constexpr std::string_view kCancelled = "CANCELLED AT ";
  if (auto time = epoch_in(line)) return time;
  if (const auto at = line.find(kCancelled); at != npos)
    if (auto time = iso_at(line.substr(at + kCancelled.size()))) return time;
  const std::string_view head = line.substr(0, kLookedAt);
  for (std::size_t i = 0; i + 14 < head.size(); ++i) {
    const bool begins =
        i == 0 || !(is_digit(head[i - 1]) || (head[i - 1] >= 'A' && head[i - 1] <= 'z'));
    if (!begins && head[i - 1] != '[') continue;
    const std::string_view here = line.substr(i);
    std::optional<LineTime> time;
    if (here[0] == '2')
      time = iso_at(here);
    else if (here[0] >= 'A' && here[0] <= 'S' && !is_digit(here[1]))
      time = month_at(here);
    else if ((here[0] == 'E' || here[0] == 'W' || here[0] == 'I' || here[0] == 'F') && i < 2)
      time = glog_at(here);
    if (time) return time;
  }
  return std::nullopt;
}

}  // namespace stoker::diagnose
