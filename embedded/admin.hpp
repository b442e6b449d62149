// The operator's hand on the embedded cluster, as scontrol and scancel are SLURM's: for the demo,
// for tests and for people. Entry of the hidden subcommand `stokerd local-admin VERB …`.
#pragma once

#include <string>
#include <vector>

#include "embedded/local_scheduler.hpp"

namespace stoker::embedded {

// arguments: VERB and what it needs, options anywhere:
//   list | drain NODE [REASON] | resume NODE | kill-node NODE | requeue JOB | hold JOB |
//   release JOB | cancel JOB | shutdown [--cancel-jobs]          each with [--json]
// JOB is "12" (the whole array) or "12_3". A plain shutdown starts no scheduler process.
// Exit status: 0 done, 1 failed, 2 usage; text goes to `out`, complaints to `err`.
int run_admin(const LocalOptions& options, const std::vector<std::string>& arguments,
              std::string& out, std::string& err);

}  // namespace stoker::embedded
