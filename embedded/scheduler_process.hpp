// The scheduler process of one cluster folder (<state>/local): exactly one by flock, started by the
// client when it is needed, ends when no job has been live and no request came for a while.
// Nothing but the folder is its memory: kill -9 it at any moment and start it again.
#pragma once

#include <string>
#include <vector>

#include "common/time.hpp"

namespace stoker::embedded {

struct SchedulerProcessOptions {
  std::string folder;
  std::vector<std::string> node_command;  // argv that leads to run_node_process, without --path
  Duration idle_exit = 10s;
  bool detach = true;  // double fork: the caller's process returns at once
};

// Entry of the hidden subcommand `stokerd local-scheduler --folder DIR`; call it first thing in
// main, before any thread exists, with node_command = {own program, "local-node"}. Exit status: 0
// also when another process already serves the folder; 1 with one line on stderr.
int run_scheduler_process(const SchedulerProcessOptions& options);

}  // namespace stoker::embedded
