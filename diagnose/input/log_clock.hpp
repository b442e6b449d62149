// LogClock: the clock of one log. Stamps move it; between them the durations that iteration lines
// tell do. It never runs backwards: a clock that was set back goes on from where it was, a stamp of
// another time zone is shifted, a single stamp out of line (a quoted old line) is passed over. What
// was assumed is said in the notes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/input/line_time.hpp"
#include "diagnose/parse/metrics.hpp"

namespace stoker::diagnose {

struct ClockRules {
  std::int64_t zone_ms = 0;    // of stamps without a zone: how far they are ahead of UTC
  std::int64_t newest_ms = 0;  // the log was written before: decides the year of dates without one
};

class LogClock {
 public:
  explicit LogClock(ClockRules rules) : rules_(rules) {}
  // The time of the lines in front of the first stamp.
  void begin_at(std::int64_t ms) { now_ = base_ = ms; }

  // The next line, and what it said about an iteration, if it did. Returns the time of the line, in
  // milliseconds since 1970; as long as no line has a time, since the beginning of the log.
  std::int64_t line(std::string_view text, const IterationMetrics* metrics);

  [[nodiscard]] bool stamped() const { return stamped_; }  // some line had a time
  [[nodiscard]] std::vector<std::string> notes() const;

 private:
  static constexpr std::size_t kForms = 10;  // with and without a zone
  [[nodiscard]] std::int64_t absolute(const LineTime& time);
  void stamp(std::int64_t ms, std::size_t form);
  void accept(std::int64_t ms);

  ClockRules rules_;
  std::uint64_t lines_ = 0;
  std::int64_t now_ = 0;
  std::int64_t base_ = 0;   // the last stamp
  std::int64_t since_ = 0;  // summed from iterations since
  std::optional<std::uint64_t> iteration_;
  std::int64_t shift_[kForms] = {};  // added to the stamps of a form
  bool seen_[kForms] = {};
  bool stamped_ = false, zoned_ = false, unzoned_ = false, yearless_ = false;
  int year_ = 0;  // of dates without one, once known
  // Stamps that do not fit: taken when several go on from one another.
  std::int64_t odd_ = 0;
  int odd_count_ = 0;
  std::uint64_t passed_over_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace stoker::diagnose
