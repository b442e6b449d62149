// The batch script of a submission: what stoker submits, and what `stoker run --dry-run` shows. A
// user can submit it by hand. Every value that is not of ours is quoted for the place where it
// stands; what cannot be quoted there (control characters) is refused.
#pragma once

#include <string>
#include <vector>

#include "core/engine/ports.hpp"

namespace stoker::slurm {

// Where the script of a submission lies: <run directory>/batch/<token>.sh. The token is in its
// path, because sites rewrite comments: scontrol shows the path as Command=.
std::string script_path(const core::SubmitRequest& request);

// Errors: a name, path or option that holds a control character; a save time beyond what
// --signal can carry.
Result<std::string> batch_script(const core::SubmitRequest& request);

// scheduler.extra, without a --reservation that is over.
std::vector<std::string> extra_options(const core::SubmitRequest& request);

// A time limit as sbatch takes it, "1-02:03:04", rounded up to seconds.
std::string slurm_duration(Duration d);

}  // namespace stoker::slurm
