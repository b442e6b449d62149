// Time: Duration, Instant (monotonic, for deciding) and WallTime (UTC, for people) are integer
// nanoseconds and different types. An Instant is "engine time": it never runs backwards, also
// across restarts of the daemon and boots of its host.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace stoker {

using Duration = std::chrono::nanoseconds;

struct EngineTime {};  // tag clocks: time points of one cannot be mixed with the other's
struct UtcTime {};
using Instant = std::chrono::time_point<EngineTime, Duration>;
using WallTime = std::chrono::time_point<UtcTime, Duration>;

using namespace std::chrono_literals;

// Beyond 290 years: the longest there is. Not a number: zero.
constexpr Duration from_seconds(double s) {
  if (!(s > -9.2e9)) return s < 0 ? -Duration::max() : Duration{};
  return s < 9.2e9 ? Duration(static_cast<std::int64_t>(s * 1e9)) : Duration::max();
}
constexpr double to_seconds(Duration d) {
  return static_cast<double>(d.count()) / 1e9;
}

// CLOCK_MONOTONIC of this host, in an Instant; only differences within one boot mean anything.
Instant monotonic_now();
WallTime wall_now();

// "90s", "10min", "20h", "7d", "1.5h", "250ms"; also "1h30min". Errors name the text and an
// example.
Result<Duration> parse_duration(std::string_view text);
// The two largest units: "1d 2h", "10min", "3.2s", "40ms".
std::string format_duration(Duration d);

// RFC 3339 UTC: "2026-05-01T03:56:11Z"; with milliseconds "2026-05-01T03:56:11.250Z".
std::string format_rfc3339(WallTime t, bool milliseconds = false);
Result<WallTime> parse_rfc3339(std::string_view text);

}  // namespace stoker
