// Streams a log of any size: its iteration and validation lines with their line numbers, in bounded
// memory. Joins records that copy and paste wrapped over up to three lines, and Composer's, which
// have a line a field. For `stoker parse`.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>

#include "common/result.hpp"
#include "diagnose/match/line_templates.hpp"
#include "diagnose/parse/metrics.hpp"
#include "diagnose/parse/user_pattern.hpp"

namespace stoker::diagnose {

struct FoundMetrics {
  std::uint64_t line = 0;  // from 1; of the record's first line
  std::variant<IterationMetrics, ValidationMetrics> found;
};

// Feeds lines one by one; usable on a live log too.
class MetricsReader {
 public:
  // `pattern` may be null; tried before the known formats.
  MetricsReader(std::function<void(const FoundMetrics&)> take, const UserPattern* pattern = nullptr)
      : take_(std::move(take)), pattern_(pattern) {}
  void line(std::string_view text);
  void finish();  // end of the log: a record that waits for its rest is given as it is
  // What the lines look like, as long as none was an iteration line.
  [[nodiscard]] const LineTemplates& templates() const { return templates_; }

 private:
  void settle();
  void examine(std::uint64_t number, std::string_view text);
  std::function<void(const FoundMetrics&)> take_;
  const UserPattern* pattern_;
  LineTemplates templates_;
  bool found_any_ = false;
  std::uint64_t number_ = 0;
  std::string open_record_;  // an unfinished one, joined so far
  std::uint64_t open_since_ = 0;
  int open_lines_ = 0;
  bool composer_ = false;  // the open record is Composer's: as many lines as it has fields
};

struct ParsedFile {
  std::vector<std::string> templates;  // of the three most frequent lines, when none was known
  std::vector<std::string> notes;      // what could not be read
};

// "-" is standard input; packed files are unpacked, a line longer than 1 MiB is cut; progress bars
// ('\r') before a record do not hide it. Errors: those of LogReader::open.
Result<ParsedFile> parse_file(const std::string& path,
                              const std::function<void(const FoundMetrics&)>& take,
                              const UserPattern* pattern = nullptr);

}  // namespace stoker::diagnose
