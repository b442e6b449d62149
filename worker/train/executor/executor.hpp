// Executor: runs one pipeline rank's list of a lowered schedule (recipe/schedule/passes.hpp), op by
// op. It knows operations, activations between stages and where micro-batches come from; nothing of
// iterations, learning rates or files.
#pragma once

#include <functional>

#include "recipe/schedule/schedule.hpp"
#include "worker/train/comm/comm.hpp"
#include "worker/train/model/model.hpp"

namespace stoker::train {

struct ExecutorHooks {
  std::function<Result<MicroBatch>(std::uint32_t micro_batch)> fetch;
  std::function<void()> after_op;                     // a sign of life
  std::function<Status(std::uint32_t stage)> reduce;  // a stage's gradients are complete here
  std::function<Status()> reduce_tied;                // the tied embedding's
  // These may be empty.
  std::function<void(const recipe::PipelineOp&)> before_op{};
  std::function<void(std::uint32_t micro_batch, double mean)> loss{};  // of the last stage
};

// What of the schedule is run, and how.
struct Execution {
  const recipe::PipelineSchedule& schedule;  // lowered
  Comm& comm;
  Duration deadline;  // of each transfer
  double weight = 1;  // of each micro-batch's mean loss
};

// Runs one step: gradients are added to what the model has. Returns the weighted sum of the losses
// of this rank's last stage; 0 where it has none.
Result<double> run_schedule(const Execution& execution, Model& model, const ExecutorHooks& hooks);

// Runs only forwards, without dropout: the schedule is forward_only().
Result<double> run_evaluation(const Execution& execution, Model& model, const ExecutorHooks& hooks);

// The forwards of `micro_batches` through the same stages, with their transfers.
Result<recipe::PipelineSchedule> forward_only(const std::vector<std::uint32_t>& rank_of_stage,
                                              std::uint32_t micro_batches);
// Forward and backward of micro-batch 0, without reductions.
Result<recipe::PipelineSchedule> one_micro_batch(const std::vector<std::uint32_t>& rank_of_stage);

}  // namespace stoker::train
