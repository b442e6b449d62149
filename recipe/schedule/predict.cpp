#include "recipe/schedule/predict.hpp"

#include <algorithm>

namespace stoker::recipe {

Result<StepPrediction> predict_step(const PipelineSchedule& schedule, const OpTimes& times) {
  STOKER_TRY(run, simulate(schedule, times));
  StepPrediction step;
  step.makespan = run.makespan;
  step.bubble = run.bubble();
  for (std::size_t r = 0; r < run.peak.size(); ++r) step.peak.push_back(run.peak_share(r));
  for (const auto& ops : schedule.ranks) step.simulated += ops.size();
  return step;
}

Result<StepPrediction> predict_step(const ScheduleShape& shape, const OpTimes& times) {
  STOKER_TRY_STATUS(check_mesh(shape));
  STOKER_TRY_STATUS(check_micro_batches(shape));
  ScheduleShape small = shape;  // 2p is a multiple of p: legal for interleaved too
  small.micro_batches = std::min(shape.micro_batches, 2 * shape.ranks);
  STOKER_TRY(schedule, make_schedule(small));
  STOKER_TRY(step, predict_step(schedule, times));
  const double each = times.forward + times.input + times.weight;
  step.makespan += each * (shape.micro_batches - small.micro_batches);
  if (step.makespan > 0) step.bubble = 1 - each * shape.micro_batches / step.makespan;
  if (shape.kind == ScheduleKind::GPipe)  // holds all of them
    std::fill(step.peak.begin(), step.peak.end(), static_cast<double>(shape.micro_batches));
  return step;
}

}  // namespace stoker::recipe
