// Progress reported by a log line, for trainings that do not write the heartbeat page: the formats
// that are known here, or the user's two regular expressions (watch.progress).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "diagnose/parse/iteration_line.hpp"
#include "diagnose/parse/user_pattern.hpp"

namespace stoker::diagnose {

class ProgressReader {
 public:
  // `patterns`: {"iteration": regex, "loss": regex}; empty = the known formats. Error: a pattern
  // that does not compile or has no group.
  static Result<ProgressReader> make(const std::map<std::string, std::string>& patterns);

  // Only with an iteration; a line of a checkpoint or a validation is not progress.
  [[nodiscard]] std::optional<IterationMetrics> read(std::string_view line) const;

 private:
  std::optional<UserPattern> user_;
};

}  // namespace stoker::diagnose
