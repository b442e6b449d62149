// Five-field cron lines with Debian's semantics (crontab(5) of cron 3.0pl1): which commands of a
// crontab were due in a span of time. For clusters without cron (deploy/cron-emulation).
#pragma once

#include <bitset>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace stoker::slurm {

struct CronLine {
  std::bitset<60> minutes;
  std::bitset<24> hours;
  std::bitset<32> days;        // 1..31
  std::bitset<13> months;      // 1..12
  std::bitset<8> weekdays;     // 0 and 7 are Sunday
  bool every_day = false;      // day of month begins with '*'
  bool every_weekday = false;  // day of week begins with '*'
  std::string command;         // up to the first unescaped '%'
};

// One line. Names of months and days in three letters, any case; lists, ranges, steps; @hourly,
// @daily, @midnight, @weekly, @monthly, @yearly, @annually. @reboot is refused: nothing boots here.
Result<CronLine> parse_cron_line(std::string_view line);

// Is it due in this minute? When both day fields are restricted, either is enough.
bool is_due(const CronLine& line, const std::tm& local);

// Commands due in the minutes after `after` up to `until` (seconds since the epoch, local time),
// each at most once, in the order of the file. Comments, empty lines and NAME=VALUE are skipped.
// At most a week is looked back. Error: the first bad line, with its number.
Result<std::vector<std::string>> due_commands(std::string_view crontab, std::time_t after,
                                              std::time_t until);

}  // namespace stoker::slurm
