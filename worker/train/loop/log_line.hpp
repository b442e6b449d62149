// The log lines of the seeds (Megatron-DeepSpeed's format), so that every tool that reads those
// reads ours. One line each, without newline.
#pragma once

#include <optional>
#include <string>

#include "common/ids.hpp"

namespace stoker::train {

struct IterationLine {
  Iteration iteration;
  std::uint64_t total = 0;
  std::uint64_t consumed_samples = 0, consumed_tokens = 0;
  double seconds = 0;  // of an iteration
  double learning_rate = 0;
  std::uint64_t global_batch = 0;
  std::optional<double> loss;  // mean over the steps since the last line that were not skipped
  double gradient_norm = 0;
  std::uint64_t skipped = 0, nan = 0;  // since the last line
  double samples_per_second = 0, tflops = 0;
  std::optional<double> zeros{}, parameter_norm{};  // on request
  std::optional<std::uint64_t> sequence{};          // tokens of a sample, with a curriculum
};
std::string format_iteration_line(const IterationLine& line);

// Dashes, the line, dashes.
std::string format_validation_lines(Iteration iteration, double loss);

}  // namespace stoker::train
