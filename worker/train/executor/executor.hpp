// Executor: runs a schedule, op by op. It knows ops, the model's slots and where micro-batches come
// from; nothing of iterations, learning rates or files.
#pragma once

#include <functional>

#include "worker/train/executor/op.hpp"
#include "worker/train/model/model.hpp"

namespace stoker::train {

struct ExecutorHooks {
  std::function<Result<MicroBatch>(std::uint32_t microbatch)> fetch;
  std::function<void()> after_op;  // a sign of life
};

// Runs one step. Each micro-batch's mean loss counts `weight`; gradients are accumulated in the
// model's wide buffers, the first backward replaces what was there. Returns the weighted sum of the
// losses.
Result<double> run_schedule(const Schedule& schedule, Model& model, double weight,
                            const ExecutorHooks& hooks);

}  // namespace stoker::train
