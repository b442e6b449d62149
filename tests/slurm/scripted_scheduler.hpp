// SLURM's scheduler port on commands that answer as a test says: at first an empty queue, a known
// cluster and one idle node.
#pragma once

#include "scripted_cluster.hpp"
#include "slurm/slurm_scheduler.hpp"

namespace stoker::slurm::testing {

inline constexpr const char* kConfig =
    "Configuration data as of 2026-11-22T07:20:02\nClusterName = jean\n";

struct ScriptedScheduler {
  ScriptedProcesses processes;
  MemoryFiles files;
  Instant now{};
  SlurmScheduler scheduler{
      processes, files, {"alice", {{"PATH", "/usr/bin"}}, 60s, 45s, [this] { return now; }}};
  const Token token{"tr11-42-0badcafe"};

  ScriptedScheduler() {
    processes.answers["squeue"] = {says("")};
    processes.answers["scontrol"] = {says(kConfig)};
    processes.answers["sinfo"] = {says("n001\x1fidle\x1fnone\n")};
  }
};

}  // namespace stoker::slurm::testing
