// `watch.progress` of RUN.yaml: regular expressions of the user for a training whose lines stoker
// does not knows. Each has one capture group: the number. RE2: no backtracking, so a hostile line
// costs nothing.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "diagnose/parse/metrics.hpp"

namespace stoker::diagnose {

struct ProgressPattern {
  std::string iteration;  // 'step=(\d+)'
  std::string loss;       // 'loss=([0-9.eE+-]+)'; may be empty
};

class UserPattern {
 public:
  // Errors: an expression that RE2 refuses, or one without a capture group; named by its key.
  static Result<UserPattern> compile(const ProgressPattern& pattern);
  UserPattern(UserPattern&&) noexcept;
  UserPattern& operator=(UserPattern&&) noexcept;
  ~UserPattern();

  [[nodiscard]] std::optional<IterationMetrics> parse(std::string_view line) const;

 private:
  struct Compiled;
  explicit UserPattern(std::unique_ptr<Compiled> compiled);
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace stoker::diagnose
