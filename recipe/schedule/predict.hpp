// What one step of a schedule costs, without executing all of it: beyond twice as many
// micro-batches as ranks every further one only adds its own time, so a step of thousands is as
// cheap to predict as a small one.
#pragma once

#include <vector>

#include "recipe/schedule/generators.hpp"
#include "recipe/schedule/simulate.hpp"

namespace stoker::recipe {

struct StepPrediction {
  double makespan = 0;
  double bubble = 0;            // mean share of it in which a rank idles
  std::vector<double> peak;     // of each rank, in activations of all its layers
  std::uint64_t simulated = 0;  // operations: what the prediction cost
};

// Error: the shape or the number of micro-batches is not legal.
Result<StepPrediction> predict_step(const ScheduleShape& shape, const OpTimes& times);
// Of a schedule that was read.
Result<StepPrediction> predict_step(const PipelineSchedule& schedule, const OpTimes& times);

}  // namespace stoker::recipe
