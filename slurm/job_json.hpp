// `scontrol show job --json` and its like: the details of one job. Every release changes its shape
// (numbers become {set, infinite, number}, a state becomes a list with flags, an exit code an
// object), so only the fields that are needed are read, each in all shapes that it has had from
// 21.08 to 26.05. Never for the poll: JSON of the whole queue is a thousand times its text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "slurm/job_detail.hpp"

namespace stoker::slurm {

std::vector<std::string> json_command(const JobId& job);

// Error: no JSON, no jobs in it, or a job without its id or with an unknown state.
Result<std::vector<JobDetail>> parse_job_json(std::string_view text);

// "SLURM_VERSION = 22.05.8" -> does scontrol write JSON? (23.02 and later.)
bool scontrol_writes_json(std::string_view version);

}  // namespace stoker::slurm
