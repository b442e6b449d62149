// How long the rest of a run takes, with a range: its iterations at the batches that are still to
// come, and what a run pays beside them (evaluations, saves, starts, the queue between two tasks,
// failures), each as this very run has shown it so far.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/json.hpp"

namespace stoker::recipe {

class BatchPlan;

// A stretch of iterations of one size.
struct PlannedBatch {
  std::uint64_t iterations = 0;
  double samples = 0;  // of one iteration
  STOKER_FIELDS(PlannedBatch, iterations, samples)
};
// Of the whole run, in order; a ramp-up of many small steps is reported in at most 64.
std::vector<PlannedBatch> batch_steps(const BatchPlan& plan, std::uint64_t train_samples);

struct ForecastInput {
  std::uint64_t done = 0, total = 0;          // iterations
  std::vector<PlannedBatch> batches;          // of the whole run; empty = all alike
  double step_s = 0;                          // of an iteration now
  double step_low_s = 0, step_high_s = 0;     // between these
  double trained_s = 0;                       // that the iterations so far took, evaluations too
  double save_share = 0;                      // seconds of saves for a second of training
  double start_s = 0;                         // from a start to its first iteration
  double queue_s = 0;                         // before a task
  double task_s = 0, task_left_s = 0;         // usable length of a task, of this one; 0 = no end
  double between_failures_s = 0, lost_s = 0;  // and what is repeated after one; 0 = none expected
};

struct Forecast {  // seconds
  double left_s = 0, low_s = 0, high_s = 0;
  // Of left_s:
  double iterations_s = 0, saves_s = 0, waits_s = 0, failures_s = 0;
  std::uint64_t tasks = 0;  // after this one
};

// Empty: nothing is left, or its speed is not known.
std::optional<Forecast> forecast(const ForecastInput& input);

}  // namespace stoker::recipe
