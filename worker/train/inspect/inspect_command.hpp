// `stoker-train inspect CHECKPOINT [--verify] [--json]`: what a checkpoint holds; with --verify
// every byte is read and compared.
#pragma once

#include <string>

#include "common/result.hpp"

namespace stoker::train {

struct InspectOptions {
  std::string checkpoint;  // its directory
  bool verify = false;
  bool json = false;
};

// Prints to stdout. Exit status 0; damage is an Error (one line for stderr, exit status 1).
Result<int> run_inspect(const InspectOptions& options);

}  // namespace stoker::train
