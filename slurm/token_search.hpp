// Finds a token in scontrol's answer about jobs, piece by piece as it comes: scontrol repeats the
// arguments of each script, so that a few jobs of any user make it longer than what is kept.
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
