// LogClock: stamps are trusted while they go forwards in sane steps.
#include "diagnose/input/log_clock.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>

#include "common/time.hpp"

namespace stoker::diagnose {

namespace {

constexpr std::int64_t kMinute = 60'000, kHalfHour = 30 * kMinute, kDay = 24 * 60 * kMinute;
constexpr std::int64_t kDisorder = 2 * kMinute;  // lines of many writers arrive out of order
constexpr std::int64_t kLongestGap = 30 * kDay;  // more is a clock that was set
constexpr std::int64_t kLongestZone = 14 * 60 * kMinute;
constexpr int kTrusted = 3;  // stamps that go on from one another
constexpr std::size_t kMostNotes = 8;
constexpr double kLongestIteration = 7 * 86'400'000.0;

std::int64_t year_begin(int year) {
  using namespace std::chrono;
  return std::int64_t{sys_days(std::chrono::year(year) / 1 / 1).time_since_epoch().count()} * kDay;
}

int year_of(std::int64_t ms) {
  using namespace std::chrono;
  const year_month_day date(floor<days>(sys_time<milliseconds>(milliseconds(ms))));
  return static_cast<int>(date.year());
}

// A date of 1972, which was a leap year, in another year.
std::int64_t in_year(std::int64_t ms, int year) {
  const std::int64_t since = ms - year_begin(1972);
  const bool no_leap_day = !std::chrono::year(year).is_leap() && since >= 60 * kDay;
  return year_begin(year) + since - (no_leap_day ? kDay : 0);
}

std::string shown(std::int64_t ms) {
  return format_duration(std::chrono::milliseconds(std::abs(ms)));
}

}  // namespace

std::int64_t LogClock::absolute(const LineTime& time) {
  (time.zoned ? zoned_ : unzoned_) = true;
  std::int64_t ms = time.ms;
  if (!time.has_year) {
    yearless_ = true;
    if (year_ == 0) {
      year_ = year_of(stamped_ ? now_ : rules_.newest_ms);
      if (!stamped_ && in_year(ms, year_) > rules_.newest_ms + kDay) --year_;
    }
    if (stamped_ && now_ - in_year(ms, year_) > 300 * kDay) ++year_;  // New Year
    ms = in_year(ms, year_);
  }
  return time.zoned ? ms : ms - rules_.zone_ms;
}

void LogClock::accept(std::int64_t ms) {
  base_ = ms;
  since_ = 0;
  odd_count_ = 0;
  stamped_ = true;
  now_ = std::max(now_, ms);
}

void LogClock::stamp(std::int64_t raw, std::size_t f) {
  std::int64_t ms = raw + shift_[f];
  if (!stamped_) {
    seen_[f] = true;
    return accept(ms);
  }
  const std::int64_t back = base_ - ms;
  if (!seen_[f] && back > kDisorder && back <= kLongestZone + kDisorder) {
    const std::int64_t zone = (back + kHalfHour / 2) / kHalfHour * kHalfHour;
    if (std::abs(back - zone) <= kDisorder) {
      shift_[f] = zone;
      ms += zone;
      if (notes_.size() < kMostNotes)
        notes_.push_back(fmt::format(
            "line {}: times of another form are {} behind: another time zone is assumed", lines_,
            shown(zone)));
    }
  }
  seen_[f] = true;
  const bool fits = ms >= base_ - kDisorder && ms <= now_ + kLongestGap;
  if (fits) return accept(std::max(ms, base_));
  const bool goes_on = odd_count_ > 0 && raw >= odd_ - kDisorder && raw <= odd_ + kDay;
  odd_count_ = goes_on ? odd_count_ + 1 : 1;
  odd_ = raw;
  ++passed_over_;
  if (odd_count_ < kTrusted) return;
  passed_over_ -= kTrusted;
  const std::int64_t by = now_ - ms;
  for (std::int64_t& shift : shift_) shift += by;
  if (notes_.size() < kMostNotes)
    notes_.push_back(
        fmt::format("line {}: the clock jumps {} by {}; the times from there on are shifted",
                    lines_, by > 0 ? "back" : "forward", shown(by)));
  accept(now_);
}

std::int64_t LogClock::line(std::string_view text, const IterationMetrics* metrics) {
  ++lines_;
  const auto time = read_line_time(text);
  if (time)
    stamp(absolute(*time), static_cast<std::size_t>(time->form) * 2 + (time->zoned ? 1 : 0));
  if (metrics == nullptr || !metrics->iteration) return now_;
  const std::uint64_t steps =
      iteration_ && *metrics->iteration > *iteration_ ? *metrics->iteration - *iteration_ : 1;
  if (!time && metrics->elapsed_ms && iteration_ != metrics->iteration) {
    const double told =
        *metrics->elapsed_ms * static_cast<double>(std::min<std::uint64_t>(steps, 10'000));
    if (std::isfinite(told) && told > 0 && told < kLongestIteration)
      since_ += static_cast<std::int64_t>(told);
    now_ = std::max(now_, base_ + since_);
  }
  iteration_ = metrics->iteration;
  return now_;
}

std::vector<std::string> LogClock::notes() const {
  std::vector<std::string> all = notes_;
  if (!stamped_) {
    all.emplace_back(
        "no line has a time: the clock is summed from the iterations' own durations, so silence "
        "cannot be seen");
    return all;
  }
  if (unzoned_ && rules_.zone_ms == 0)
    all.emplace_back(zoned_
                         ? "some times tell no zone: taken as UTC, beside others that tell theirs"
                         : "the times tell no zone: taken as UTC");
  if (yearless_) all.push_back(fmt::format("dates without a year: {} is assumed", year_));
  if (passed_over_ > 0)
    all.push_back(fmt::format("{} times that do not fit were passed over", passed_over_));
  return all;
}

}  // namespace stoker::diagnose
