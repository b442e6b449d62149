#include "slurm/crontab.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <fmt/format.h>

namespace stoker::slurm {
namespace {

constexpr std::time_t kLongestLook = 7 * 86400;
constexpr std::array<std::string_view, 12> kMonths{"jan", "feb", "mar", "apr", "may", "jun",
                                                   "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<std::string_view, 7> kDays{"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

struct Nickname {
  std::string_view name, fields;
};
constexpr Nickname kNicknames[] = {{"@hourly", "0 * * * *"},   {"@daily", "0 0 * * *"},
                                   {"@midnight", "0 0 * * *"}, {"@weekly", "0 0 * * 0"},
                                   {"@monthly", "0 0 1 * *"},  {"@yearly", "0 0 1 1 *"},
                                   {"@annually", "0 0 1 1 *"}};

struct Range {
  const char* what;
  unsigned low, high;
};

std::string_view word(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  const auto end = std::min(rest.find_first_of(" \t"), rest.size());
  const std::string_view out = rest.substr(0, end);
  rest.remove_prefix(end);
  return out;
}

Result<unsigned> value(std::string_view text, const Range& range) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (range.high == 12)
    for (unsigned i = 0; i < kMonths.size(); ++i)
      if (lower == kMonths[i]) return i + 1;
  if (range.high == 7)
    for (unsigned i = 0; i < kDays.size(); ++i)
      if (lower == kDays[i]) return i;
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < range.low ||
      number > range.high)
    return fail(fmt::format("{} is no {} ({} to {})", text, range.what, range.low, range.high));
  return number;
}

template <std::size_t N>
Status read_field(std::string_view text, const Range& range, std::bitset<N>& out) {
  if (text.empty()) return fail(fmt::format("the {} is missing", range.what));
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    const std::string_view whole = text.substr(from, comma - from);
    std::string_view item = whole;
    unsigned step = 1, low = range.low, high = range.high;
    const auto slash = item.find('/');
    if (slash != std::string_view::npos) {
      STOKER_TRY(given, value(item.substr(slash + 1), {"step", 1, 1000}));
      step = given;
      item = item.substr(0, slash);
    }
    if (item != "*") {
      const auto dash = item.find('-');
      STOKER_TRY(first, value(item.substr(0, dash), range));
      low = first;
      high = first;
      if (dash != std::string_view::npos) {
        STOKER_TRY(last, value(item.substr(dash + 1), range));
        high = last;
      } else if (slash != std::string_view::npos) {
        return fail(fmt::format("a step needs a range or *: {}", whole));
      }
      if (high < low) return fail(fmt::format("the range {} runs backwards", item));
    }
    for (unsigned i = low; i <= high; i += step) out.set(i);
    from = comma + 1;
  }
  return ok();
}

// Up to the first '%' without a backslash; "\%" is "%".
std::string command_of(std::string_view rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  std::string out;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == '%') break;
    if (rest[i] == '\\' && i + 1 < rest.size() && rest[i + 1] == '%') ++i;
    out += rest[i];
  }
  return out;
}

bool is_setting(std::string_view line) {  // NAME = VALUE
  const auto equals = line.find('=');
  if (equals == std::string_view::npos || equals == 0) return false;
  std::string_view name = line.substr(0, equals);
  name = name.substr(0, std::min(name.find_last_not_of(" \t") + 1, name.size()));
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_';
  }) && std::isdigit(static_cast<unsigned char>(name.front())) == 0;
}

}  // namespace

Result<CronLine> parse_cron_line(std::string_view line) {
  CronLine out;
  std::string_view rest = line;
  std::string_view fields = rest;
  if (line.find_first_not_of(" \t") != std::string_view::npos &&
      line[line.find_first_not_of(" \t")] == '@') {
    const std::string_view name = word(rest);
    const auto* known = std::find_if(std::begin(kNicknames), std::end(kNicknames),
                                     [&](const Nickname& n) { return n.name == name; });
    if (known == std::end(kNicknames))
      return fail(fmt::format("{} is not known here", name), "", "use @hourly, @daily, …");
    fields = known->fields;
  }
  const bool nickname = fields.data() != line.data();
  std::string_view& source = nickname ? fields : rest;
  STOKER_TRY_STATUS(read_field(word(source), {"minute", 0, 59}, out.minutes));
  STOKER_TRY_STATUS(read_field(word(source), {"hour", 0, 23}, out.hours));
  const std::string_view day = word(source);
  STOKER_TRY_STATUS(read_field(day, {"day of the month", 1, 31}, out.days));
  STOKER_TRY_STATUS(read_field(word(source), {"month", 1, 12}, out.months));
  const std::string_view weekday = word(source);
  STOKER_TRY_STATUS(read_field(weekday, {"day of the week", 0, 7}, out.weekdays));
  out.every_day = day.front() == '*';
  out.every_weekday = weekday.front() == '*';
  if (out.weekdays[7]) out.weekdays.set(0);
  out.command = command_of(rest);
  if (out.command.empty()) return fail("the command is missing");
  return out;
}

bool is_due(const CronLine& line, const std::tm& local) {
  const auto at = [](int value) { return static_cast<std::size_t>(value); };
  if (!line.minutes[at(local.tm_min)] || !line.hours[at(local.tm_hour)] ||
      !line.months[at(local.tm_mon + 1)])
    return false;
  const bool day = line.days[at(local.tm_mday)];
  const bool weekday = line.weekdays[at(local.tm_wday)];
  return line.every_day || line.every_weekday ? day && weekday : day || weekday;
}

Result<std::vector<std::string>> due_commands(std::string_view crontab, std::time_t after,
                                              std::time_t until) {
  std::vector<std::string> due;
  after = std::max(after, until - kLongestLook);
  for (int number = 1; !crontab.empty(); ++number) {
    const std::string_view text = crontab.substr(0, crontab.find('\n'));
    crontab.remove_prefix(std::min(text.size() + 1, crontab.size()));
    const auto begin = text.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos || text[begin] == '#' || is_setting(text.substr(begin)))
      continue;
    const auto line = parse_cron_line(text.substr(begin));
    if (!line)
      return fail(fmt::format("line {}: {}", number, line.error().what),
                  std::string(text.substr(0, 80)), line.error().hint);
    for (std::time_t minute = (after / 60 + 1) * 60; minute <= until; minute += 60) {
      std::tm local{};
      ::localtime_r(&minute, &local);
      if (!is_due(*line, local)) continue;
      due.push_back(line->command);
      break;
    }
  }
  return due;
}

}  // namespace stoker::slurm
