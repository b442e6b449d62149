// SLURM's own view of a job's steps, from two programs: `squeue -s` and `scontrol show step`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/ids.hpp"
#include "common/result.hpp"

namespace stoker::slurm {

inline constexpr std::string_view kProbeName = "stoker-probe";  // of our own steps

struct JobStep {
  JobId job;                    // task 0 = no array
  std::string step;             // "0", "batch", "extern"
  std::string name;             // of its program
  std::vector<NodeName> nodes;  // "" = unknown
  [[nodiscard]] std::string text() const { return job.text() + "." + step; }
};

std::vector<std::string> steps_command(const JobId& job);
// Lines that are no step are an error: such an answer proves nothing.
Result<std::vector<JobStep>> parse_steps(std::string_view text);
// `scontrol -o show step JOB`.
Result<std::vector<JobStep>> parse_step_records(std::string_view text);

}  // namespace stoker::slurm
