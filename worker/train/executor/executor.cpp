#include "worker/train/executor/executor.hpp"

namespace stoker::train {

Result<double> run_schedule(const Schedule& schedule, Model& model, double weight,
                            const ExecutorHooks& hooks) {
  double loss = 0;
  Accumulate how = Accumulate::Replace;
  for (const Op& op : schedule) {
    STOKER_CHECK(op.chunk == 0, "one chunk a rank");
    switch (op.kind) {
      case OpKind::Forward: {
        STOKER_TRY(batch, hooks.fetch(op.microbatch));
        STOKER_TRY(mean, model.forward(op.microbatch, batch));
        loss += weight * mean;
        break;
      }
      case OpKind::Backward:
        STOKER_TRY_STATUS(model.backward(op.microbatch, weight, how));
        how = Accumulate::Add;
        break;
    }
    hooks.after_op();
  }
  return loss;
}

}  // namespace stoker::train
