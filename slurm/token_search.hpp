// Finds a token in what scontrol says of jobs, as it comes: a few jobs of anybody's make that longer
// than what is kept in memory, because scontrol repeats the arguments of each script.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "common/ids.hpp"

namespace stoker::slurm {

class TokenSearch {
 public:
  explicit TokenSearch(Token token) : token_(std::move(token)) {}

  void feed(std::string_view piece);
  void finish() { end_line(); }
  // The ids at the beginning of the lines that hold the token; an array's own for its tasks.
  [[nodiscard]] const std::set<std::uint64_t>& jobs() const { return jobs_; }
  [[nodiscard]] bool found() const { return found_; }  // in any line
  [[nodiscard]] bool any_job() const { return any_job_; }

 private:
  void add(std::string_view part);
  void end_line();

  Token token_;
  std::string head_, tail_;  // of the present line
  bool in_line_ = false, found_ = false, any_job_ = false;
  std::set<std::uint64_t> jobs_;
};

}  // namespace stoker::slurm
