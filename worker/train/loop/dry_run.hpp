// The dry run: everything that a start checks before its first iteration, for all ranks of a mesh
// in one process. No model is allocated, no peer is met, nothing is written but the index cache of
// the data. What it cannot see: the nodes themselves, their memory, CPUs and network.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "worker/train/run/exit_code.hpp"

namespace stoker::train {

struct DryRunOptions {
  std::string config;                // path of TRAIN.yaml
  std::uint32_t ranks = 0;           // 0: one replica
  std::uint32_t ranks_per_node = 0;  // 0: all of them
  bool without_data = false;         // it lies elsewhere
  std::set<std::string> accepted;    // as SessionOptions
};

struct DryRun {
  ExitCode code = ExitCode::Finished;  // what the start would end with, if it is refused
  std::vector<std::string> refusals;   // all that are known, one line each
  std::vector<std::string> warnings;
  std::string table;  // what each pipeline rank needs; "" when the start is refused
};

DryRun dry_run(const DryRunOptions& options);
// Prints it.
ExitCode run_dry(const DryRunOptions& options);

}  // namespace stoker::train
