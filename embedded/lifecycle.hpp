// What follows from the ends of a task's processes, from a node's death and from somebody's will:
// pure changes of one Task. The caller ends processes as `Ending` says and stores the task.
#pragma once

#include <string>
#include <vector>

#include "embedded/cluster.hpp"

namespace stoker::embedded {

// The task starts on these nodes.
void start_task(Task& task, const Job& job, std::vector<NodeName> nodes, std::uint64_t raw_id,
                WallTime now);

// An active task is to be ended; its processes must be asked to leave. The first cause stays.
void begin_ending(Task& task, EndCause cause, WallTime now);

// The node below one of the task's runs died. With no_kill the task is still running with fewer
// nodes, as SLURM does. True: it cannot; the caller ends it with NodeFailed.
bool lose_node(Task& task, const Job& job, const NodeName& node);

// After a run's phase changed: the task is finished, requeued or goes on. With no_kill a lost
// batch host leaves the task RUNNING without a script (limbo) until somebody cancels it or the
// wall comes. The job's exit is the highest of its nodes, as code:signal.
void settle(Task& task, const Job& job, WallTime now);

// Jobs that have ended, the one that ended first first, whose accounting goes so that at most
// `keep` ended tasks are left. By their ends, not by their numbers: how a long job ended must be
// known for a while, too.
std::vector<std::uint64_t> jobs_to_forget(const Cluster& cluster, std::size_t keep);

}  // namespace stoker::embedded
