#include "common/time.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fmt/format.h>

namespace stoker {
namespace {

struct Unit {
  std::string_view name;
  Duration length;
};
constexpr std::array<Unit, 12> kUnits{{{"ns", 1ns},
                                       {"us", 1us},
                                       {"ms", 1ms},
                                       {"s", 1s},
                                       {"sec", 1s},
                                       {"m", 1min},
                                       {"min", 1min},
                                       {"h", 1h},
                                       {"hour", 1h},
                                       {"hours", 1h},
                                       {"d", 24h},
                                       {"days", 24h}}};

Duration clock_now(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return std::chrono::seconds(t.tv_sec) + Duration(t.tv_nsec);
}

Unexpected bad_duration(std::string_view text) {
  return fail(fmt::format("expected a duration, got \"{}\"", text), {},
              "write for example 90s, 10min, 20h or 7d");
}

}  // namespace

Instant monotonic_now() {
  return Instant(clock_now(CLOCK_MONOTONIC));
}
WallTime wall_now() {
  return WallTime(clock_now(CLOCK_REALTIME));
}

Result<Duration> parse_duration(std::string_view text) {
  const std::string_view whole = text;
  if (text.empty() || text.size() > 32) return bad_duration(whole);
  double total = 0;
  while (!text.empty()) {
    double number = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (error != std::errc{} || number < 0) return bad_duration(whole);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    const std::size_t letters = std::min(text.find_first_of("0123456789."), text.size());
    const std::string_view name = text.substr(0, letters);
    text.remove_prefix(letters);
    const Unit* unit = nullptr;
    for (const Unit& u : kUnits)
      if (u.name == name) unit = &u;
    if (unit == nullptr) return bad_duration(whole);
    total += number * static_cast<double>(unit->length.count());
  }
  if (!(total < 9e18)) return bad_duration(whole);
  return Duration(static_cast<std::int64_t>(std::llround(total)));
}

std::string format_duration(Duration d) {
  if (d < 0ns) return "-" + format_duration(-std::max(d, -Duration::max()));
  if (d < 1s)
    return fmt::format("{}ms", std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
  if (d < 10s) return fmt::format("{:.1f}s", to_seconds(d));
  const auto s = std::chrono::duration_cast<std::chrono::seconds>(d).count();
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600)
    return s % 60 == 0 ? fmt::format("{}min", s / 60) : fmt::format("{}min {}s", s / 60, s % 60);
  const auto minutes = s / 60;
  if (minutes < 24 * 60)
    return minutes % 60 == 0 ? fmt::format("{}h", minutes / 60)
                             : fmt::format("{}h {}min", minutes / 60, minutes % 60);
  const auto hours = minutes / 60;
  return hours % 24 == 0 ? fmt::format("{}d", hours / 24)
                         : fmt::format("{}d {}h", hours / 24, hours % 24);
}

std::string format_rfc3339(WallTime t, bool milliseconds) {
  const auto since = t.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  const std::time_t value = static_cast<std::time_t>(seconds.count());
  std::tm parts{};
  gmtime_r(&value, &parts);
  std::string text =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                  parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
  if (milliseconds)
    text += fmt::format(".{:03}",
                        std::chrono::floor<std::chrono::milliseconds>(since - seconds).count());
  return text + "Z";
}

Result<WallTime> parse_rfc3339(std::string_view text) {
  const std::string copy(text.substr(0, 40));
  std::tm parts{};
  int used = 0;
  if (std::sscanf(copy.c_str(), "%4d-%2d-%2d%*1[Tt ]%2d:%2d:%2d%n", &parts.tm_year, &parts.tm_mon,
                  &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &used) != 6 ||
      used == 0)
    return fail(fmt::format("expected a time, got \"{}\"", copy), {},
                "write for example 2026-05-01T03:56:11Z");
  double fraction = 0;
  std::string_view rest = std::string_view(copy).substr(static_cast<std::size_t>(used));
  if (!rest.empty() && rest[0] == '.') {
    double scale = 0.1;
    rest.remove_prefix(1);
    while (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') {
      fraction += scale * (rest[0] - '0');
      scale /= 10;
      rest.remove_prefix(1);
    }
  }
  long offset_minutes = 0;
  int hours = 0;
  int minutes = 0;
  char sign[2] = {};
  if (rest != "Z" && rest != "z") {
    const std::string zone(rest);
    if (std::sscanf(zone.c_str(), "%1[+-]%2d:%2d", sign, &hours, &minutes) != 3)
      return fail(fmt::format("time without a zone: \"{}\"", copy), {}, "end it with Z for UTC");
    offset_minutes = (sign[0] == '-' ? -1 : 1) * (hours * 60L + minutes);
  }
  constexpr int kFirstYear = 1970, kLastYear = 2261;  // what nanoseconds since 1970 can tell
  if (parts.tm_year < kFirstYear || parts.tm_year > kLastYear)
    return fail(fmt::format("no year from {} to {}: \"{}\"", kFirstYear, kLastYear, copy));
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  const std::tm asked = parts;
  const std::time_t seconds = timegm(&parts);  // makes May 1 of April 31
  const bool leap_second = asked.tm_sec == 60;
  if (!leap_second && (parts.tm_mon != asked.tm_mon || parts.tm_mday != asked.tm_mday ||
                       parts.tm_hour != asked.tm_hour || parts.tm_min != asked.tm_min))
    return fail(fmt::format("there is no such time: \"{}\"", copy));
  return WallTime(std::chrono::seconds(seconds) - std::chrono::minutes(offset_minutes) +
                  from_seconds(fraction));
}

}  // namespace stoker
