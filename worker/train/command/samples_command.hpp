// `stoker-train samples --iteration N --config TRAIN.yaml [--json]`: which samples made iteration
// N, from which data sets and documents, and their texts: how a loss spike is traced to bad text.
// main.cpp fills the options and calls run_samples.
#pragma once

#include <optional>
#include <string>

#include "common/ids.hpp"
#include "common/result.hpp"

namespace stoker::train {

struct SamplesOptions {
  std::string config;              // --config; its paths count from the working directory
  Iteration iteration;             // --iteration, from 1
  std::optional<std::string> log;  // --samples-log, instead of the configured one
  bool json = false;               // --json: one document
};

// Prints to stdout. The range comes from samples.log; where the log does not have it, from
// TRAIN.yaml (and says so on stderr). Exit status 0, or 22 with the errors of TRAIN.yaml on stderr.
// An Error is one line for stderr, exit status 1.
Result<int> run_samples(const SamplesOptions& options);

}  // namespace stoker::train
