// When a line was written, by its own words: the time stamps of launchers, loggers, kernels, SLURM
// and MLPerf's events. By hand, as iteration_line.cpp: every line of a replay comes here.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stoker::diagnose {

struct LineTime {
  enum class Form : std::uint8_t {
    Epoch,   // MLPerf's "time_ms": 1696564728839
    Iso,     // 2026-03-25T10:34:07.530, 2023-04-18 01:46:52,554, 2024/03/07 15:27:02
    Ctime,   // Sat Mar  4 04:25:12 2023
    Syslog,  // Jun 10 03:09:55
    Glog     // E1218 20:27:21.426415
  };
  std::int64_t ms = 0;  // UTC where the zone is known, else as if it were
  Form form = Form::Iso;
  bool zoned = false;
  bool has_year = true;  // else it is in 1972, a leap year
};

// The first stamp in the beginning of the line, or behind "CANCELLED AT". Years from 2000 on only.
std::optional<LineTime> read_line_time(std::string_view line);

}  // namespace stoker::diagnose
