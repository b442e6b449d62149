// The mesh in `stoker plan`: rows and JSON of what tensor and pipeline parallelism cost.
#pragma once

#include "cli/read/run_file.hpp"
#include "recipe/pipeline_plan.hpp"

namespace stoker::cli {

using PlanRow = std::pair<std::string, std::string>;  // label, value

// Empty without tensor or pipeline parallelism.
std::vector<PlanRow> mesh_rows(const recipe::TrainConfig& config, const recipe::Plan& plan);
Json mesh_json(const recipe::TrainConfig& config, const recipe::Plan& plan);

// The CSV of parallel.schedule, read and validated: from the run directory, else beside TRAIN.yaml.
// Empty without one.
Result<std::optional<recipe::PipelineSchedule>> read_schedule_file(const configs::CheckedRun& run);

// "1.9 GiB model state, 9.0 GiB activations", and on GPUs what CUDA itself takes.
std::string memory_parts(const recipe::MemoryEstimate& memory);

}  // namespace stoker::cli
