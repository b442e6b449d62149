#include "embedded/begin_time.hpp"

#include <charconv>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>

namespace stoker::embedded {
namespace {

constexpr Duration kFarthest = std::chrono::hours(24 * 3660);

Unexpected bad_begin(std::string_view text) {
  return fail("cannot understand this begin time", std::string(text.substr(0, 80)),
              "write for example now+1hour, +10min or 2026-05-01T03:00:00");
}

std::optional<Duration> unit_of(std::string_view unit) {
  struct Unit {
    std::string_view stem;
    Duration length;
  };
  static constexpr Unit kUnits[] = {
      {"second", 1s}, {"minute", 60s}, {"hour", 3600s}, {"day", 86400s}, {"week", 7 * 86400s}};
  if (!unit.empty() && unit.back() == 's') unit.remove_suffix(1);
  for (const auto& u : kUnits)
    if (unit == u.stem) return u.length;
  return std::nullopt;
}

// "90", "2hours", "10min" (a duration of stoker's own).
Result<Duration> parse_offset(std::string_view text, std::string_view whole) {
  std::int64_t count = 0;
  const char* end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc{} || count < 0 || count > 1'000'000'000) return bad_begin(whole);
  if (after == end) return std::chrono::duration_cast<Duration>(std::chrono::seconds(count));
  if (const auto unit = unit_of(std::string_view(after, static_cast<std::size_t>(end - after)))) {
    if (count > kFarthest / *unit) return bad_begin(whole);
    return *unit * count;
  }
  const auto duration = parse_duration(text);
  if (!duration || *duration > kFarthest || *duration < 0s) return bad_begin(whole);
  return *duration;
}

// Whether all of `text` matches a format of strptime(3).
bool matches(const std::string& text, const char* format, std::tm& out) {
  out = {};
  out.tm_isdst = -1;
  const char* end = ::strptime(text.c_str(), format, &out);
  return end != nullptr && *end == '\0';
}

}  // namespace

Result<WallTime> parse_begin(std::string_view text, WallTime now) {
  if (text.empty() || text == "now") return now;
  if (text.size() > 40) return bad_begin(text);
  std::string_view offset = text;
  if (offset.substr(0, 3) == "now") offset.remove_prefix(3);
  if (!offset.empty() && offset.front() == '+') {
    STOKER_TRY(after, parse_offset(offset.substr(1), text));
    return now + after;
  }
  const bool utc = text.back() == 'Z';
  const std::string plain(utc ? text.substr(0, text.size() - 1) : text);
  std::tm tm{};
  const auto at = [utc](std::tm t) {
    const std::time_t seconds = utc ? ::timegm(&t) : ::mktime(&t);
    return WallTime(std::chrono::seconds(seconds));
  };
  for (const char* format : {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"})
    if (matches(plain, format, tm)) return at(tm);
  for (const char* format : {"%H:%M:%S", "%H:%M"}) {
    if (!matches(plain, format, tm)) continue;
    const auto seconds = static_cast<std::time_t>(now.time_since_epoch() / std::chrono::seconds(1));
    std::tm day{};
    utc ? ::gmtime_r(&seconds, &day) : ::localtime_r(&seconds, &day);
    day.tm_hour = tm.tm_hour;
    day.tm_min = tm.tm_min;
    day.tm_sec = tm.tm_sec;
    day.tm_isdst = -1;
    if (at(day) < now) ++day.tm_mday;
    return at(day);
  }
  return bad_begin(text);
}

Result<Dependency> parse_dependency(std::string_view text) {
  Dependency out;
  const auto bad = [text] {
    return fail("cannot understand this dependency", std::string(text.substr(0, 80)),
                "write for example afterany:12 or singleton");
  };
  if (text.size() > 4096) return bad();
  while (!text.empty()) {
    std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    if (part == "singleton") {
      out.singleton = true;
      continue;
    }
    constexpr std::string_view kAfter = "afterany:";
    if (part.substr(0, kAfter.size()) != kAfter) return bad();
    part.remove_prefix(kAfter.size());
    while (true) {
      JobId id;
      const char* end = part.data() + part.size();
      auto [at, error] = std::from_chars(part.data(), end, id.job);
      if (error != std::errc{} || id.job == 0) return bad();
      if (at != end && *at == '_') {
        const auto task = std::from_chars(at + 1, end, id.task);
        if (task.ec != std::errc{} || id.task == 0) return bad();
        at = task.ptr;
      }
      out.after.push_back(id);
      if (at == end) break;
      if (*at != ':') return bad();
      part = std::string_view(at + 1, static_cast<std::size_t>(end - at - 1));
    }
  }
  return out;
}

}  // namespace stoker::embedded
