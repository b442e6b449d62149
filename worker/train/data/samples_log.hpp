// samples.log: one line an iteration, `iteration 17 | samples 1024-1055 | data sets 0:30 1:2 |
// generation 3.1 | <crc32c>`, appended with one write(2) by the first rank. After a restart
// iterations are made again, so an iteration can have several lines: a line is in force unless a
// later (generation, attempt) began at or before its iteration. So the file is only ever appended
// to, and a late writer of an older generation changes nothing.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "common/ids.hpp"
#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace stoker::train {

struct SamplesLine {
  Iteration iteration;  // completed with these samples
  std::uint64_t first = 0;
  std::uint64_t last = 0;                          // inclusive
  std::map<std::uint32_t, std::uint64_t> sources;  // data set -> samples
  Generation generation;
  Attempt attempt;
  bool operator==(const SamplesLine&) const = default;
};

std::string format_samples_line(const SamplesLine& line);  // ends with a newline
Result<SamplesLine> parse_samples_line(std::string_view line);

class SamplesLog {
 public:
  // Opens for append; a torn last line (kill -9, full disk) is closed with a newline first.
  static Result<SamplesLog> open(const std::string& path);
  Status append(const SamplesLine& line);

 private:
  os::Fd fd_;
  std::string path_;
};

// The lines in force by iteration. Lines that are torn or damaged are skipped and counted.
struct SamplesHistory {
  std::map<Iteration, SamplesLine> lines;
  std::uint64_t damaged = 0;
};
Result<SamplesHistory> read_samples_log(const std::string& path);

}  // namespace stoker::train
