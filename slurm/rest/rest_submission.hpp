// The body of a submission to slurmrestd: it reads no #SBATCH line, so that each option becomes the
// field that means the same, or the submission is refused with the option's name.
#pragma once

#include <map>
#include <string>

#include "common/json.hpp"
#include "slurm/submission.hpp"

namespace stoker::slurm {

// `api`: 38 for v0.0.38. `script`: the text that runs. `environment`: what the job starts with.
// Error: an option that has no field, named by the error's object.
Result<Json> submission_body(const Submission& prepared, int api, const std::string& script,
                             const std::map<std::string, std::string>& environment);

// The body of a change of the nodes that an array's waiting tasks must not have.
Json exclusions_body(const std::string& nodes, int api);

}  // namespace stoker::slurm
