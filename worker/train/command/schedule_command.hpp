// `stoker-train schedule --kind 1f1b --stages 4 --micro-batches 8`: a pipeline schedule as a (text
// or SVG) picture with its bubble and peak activations, as CSV (which `parallel.schedule: FILE.csv`
// reads), as the full list of operations, or as JSON. `--file FILE.csv` shows and validates one's
// own.
#pragma once

#include <cstdint>
#include <string>

#include "common/result.hpp"

namespace stoker::train {

struct ScheduleOptions {
  std::string kind = "1f1b";
  std::string file;  // instead of kind, stages and micro-batches
  std::uint32_t stages = 4;
  std::uint32_t micro_batches = 8;
  std::uint32_t virtual_stages = 1;
  double forward = 1, input = 1, weight = 1, hop = 0;  // durations of a rank's share
  bool csv = false, operations = false, svg = false, json = false;
};

// What is printed. Error: no such schedule, an illegal shape, or a CSV that is no schedule.
Result<std::string> schedule_text(const ScheduleOptions& options);
// Prints it. Exit status 0; 22 with one line on stderr for an Error.
int run_schedule_command(const ScheduleOptions& options);

}  // namespace stoker::train
