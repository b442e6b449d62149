// stoker plan RUN.yaml --calendar: which nodes are there when, by the cluster's reservations, and
// what size the run takes in each time.
#pragma once

#include "cli/command.hpp"
#include "core/policy.hpp"

namespace stoker::cli {

// Asks SLURM's commands now. Exit status: failed where they do not answer, or know no reservations
// (the embedded scheduler).
int show_calendar(Context& context, const core::RunPolicy& policy, bool json);

}  // namespace stoker::cli
