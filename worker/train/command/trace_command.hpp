// `stoker-train trace FILE [--json]`: puts the traces of all ranks of one start (`--trace FILE`
// writes one file a rank) together into FILE, and prints how long each rank did what. main.cpp
// fills the options and calls run_trace.
#pragma once

#include <string>

#include "common/result.hpp"

namespace stoker::train {

struct TraceCommandOptions {
  std::string file;   // as it was given to --trace
  bool json = false;  // one document
};

// What is printed; FILE is written. Errors, one line: no files, ranks that are missing, files of
// another start, of other iterations, or damaged ones. Nothing is written then.
Result<std::string> merge_traces(const TraceCommandOptions& options);
Result<int> run_trace(const TraceCommandOptions& options);

}  // namespace stoker::train
