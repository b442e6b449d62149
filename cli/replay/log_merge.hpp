// LogMerge: the lines of several logs in the order in which they were written, each by the clock of
// its own log. Nothing is read whole.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/read/log_inputs.hpp"
#include "diagnose/input/log_clock.hpp"
#include "diagnose/input/log_reader.hpp"
#include "diagnose/parse/user_pattern.hpp"

namespace stoker::cli {

struct MergedLine {
  std::size_t source = 0;    // place in the inputs that could be opened
  std::uint64_t number = 0;  // from 1
  std::int64_t ms = 0;       // since 1970; since the beginning where no log has a time
  std::string_view text;     // without its newline; valid until the next call
  std::optional<diagnose::IterationMetrics> metrics;  // of an iteration line
};

class LogMerge {
 public:
  struct Source {
    std::string name;
    bool kernel_log = false;
  };
  // Files that cannot be opened are named in `errors`. `pattern` may be null.
  LogMerge(const std::vector<LogInput>& inputs, diagnose::ClockRules rules,
           const diagnose::UserPattern* pattern, std::vector<std::string>& errors);
  ~LogMerge();

  bool next(MergedLine& line);  // false: the end of all
  [[nodiscard]] const std::vector<Source>& sources() const { return names_; }
  [[nodiscard]] bool stamped() const;  // some line had a time
  // What was assumed about the clocks and what could not be read; at the end.
  [[nodiscard]] std::vector<std::string> notes() const;

 private:
  struct Log;
  void advance(Log& log);
  const diagnose::UserPattern* pattern_;
  std::vector<Source> names_;
  std::vector<std::unique_ptr<Log>> logs_;
  std::size_t last_ = SIZE_MAX;  // whose line was given; it is taken off with the next call
};

}  // namespace stoker::cli
