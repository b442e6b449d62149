// Ends every process of one node of one job: found by the mark in their environment
// (STOKER_LOCAL_MARK, inherited over fork, setsid and double fork) and as descendants of the node
// process. A process that both left the tree of a killed node process and replaced its whole
// environment escapes; under a living node process, which is a subreaper, nothing does.
#pragma once

#include <set>
#include <string>
#include <sys/types.h>

#include "common/time.hpp"

namespace stoker::embedded {

// Pids of this user whose environment holds the mark, except ours; a snapshot of /proc.
std::set<pid_t> processes_with_mark(const std::string& mark);

// KILLs them and the descendants of `root` (0 = none; with `with_root` that one too) again and
// again until none is left or `limit` is over. Returns how many are left (in D state).
struct SweepTarget {
  std::string mark;
  pid_t root = 0;
  bool with_root = false;
};
std::uint32_t sweep(const SweepTarget& target, Duration limit);

}  // namespace stoker::embedded
