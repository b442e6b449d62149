// Who may start where: the pure heart of the embedded scheduler. First come, first served by job
// id; whole nodes; a task that waits for nodes that exist but are busy is not overtaken, one that
// waits for nodes that are away is. Jobs of the background come after all others, in any case.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "embedded/cluster.hpp"

namespace stoker::embedded {

struct StartTask {
  JobId task;
  std::vector<NodeName> nodes;  // sorted; the first is the batch host
};

struct Plan {
  std::vector<StartTask> starts;
  std::map<JobId, std::string> reasons;  // of every pending task that does not start
  // When a begin time changes the answer; empty: only another event does.
  std::optional<WallTime> next_begin;
};

// Reasons in SLURM's words: JobHeldUser, BeginTime, Dependency, JobArrayTaskLimit, Resources,
// Priority, "ReqNodeNotAvail, UnavailableNodes:n[02-03]".
Plan plan_starts(const Cluster& cluster, WallTime now);

}  // namespace stoker::embedded
