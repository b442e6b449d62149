#include "worker/train/executor/executor.hpp"

#include <algorithm>
#include <map>

#include "recipe/schedule/passes.hpp"

namespace stoker::train {
namespace {

using recipe::OpKind;
using recipe::PipelineOp;

class Runner {
 public:
  Runner(const Execution& execution, Model& model, const ExecutorHooks& hooks, bool training)
      : e_(execution), model_(model), hooks_(hooks), training_(training) {}

  Result<double> run() {
    for (const PipelineOp& op : e_.schedule.ranks[e_.comm.mesh().pipe_rank(e_.comm.rank())]) {
      if (hooks_.before_op) hooks_.before_op(op);
      STOKER_TRY_STATUS(execute(op));
      hooks_.after_op();
    }
    return loss_;
  }

 private:
  Status execute(const PipelineOp& op) {
    const Unit unit{op.stage, op.micro_batch};
    switch (op.kind) {
      case OpKind::Forward: return forward(unit);
      case OpKind::Backward:
      case OpKind::InputGradient: return backward(unit, op.kind == OpKind::Backward);
      case OpKind::WeightGradient: return model_.weight_gradient(unit);
      case OpKind::SendForward: return send(op.stage + 1, inputs_, {op.stage + 1, op.micro_batch});
      case OpKind::RecvForward: return receive(op.stage - 1, inputs_, unit);
      case OpKind::SendBackward:
        return send(op.stage - 1, gradients_, {op.stage - 1, op.micro_batch});
      case OpKind::RecvBackward: return receive(op.stage + 1, gradients_, unit);
      case OpKind::ReduceGradients: return hooks_.reduce(op.stage);
      case OpKind::ReduceTied: return hooks_.reduce_tied();
    }
    return ok();
  }

  Status forward(Unit unit) {
    STOKER_TRY(batch, hooks_.fetch(unit.micro_batch));
    bytes_ = model_.activation_bytes(batch);
    const Activation input = take(inputs_, unit);
    Activation output;
    STOKER_TRY(mean, training_ ? model_.forward(unit, batch, input, output)
                               : model_.evaluate(unit, batch, input, output));
    loss_ += e_.weight * mean;
    if (hooks_.loss && unit.stage + 1 == e_.schedule.stages()) hooks_.loss(unit.micro_batch, mean);
    if (unit.stage + 1 < e_.schedule.stages())
      inputs_[{unit.stage + 1, unit.micro_batch}] = std::move(output);
    return ok();
  }

  Status backward(Unit unit, bool whole) {
    const Activation upstream = take(gradients_, unit);
    Activation downstream;
    STOKER_TRY_STATUS(whole ? model_.backward(unit, e_.weight, upstream, downstream)
                            : model_.input_gradient(unit, e_.weight, upstream, downstream));
    if (unit.stage > 0) gradients_[{unit.stage - 1, unit.micro_batch}] = std::move(downstream);
    return ok();
  }

  using Waiting = std::map<Unit, Activation>;  // what a unit will read

  static Activation take(Waiting& waiting, Unit unit) {
    const auto found = waiting.find(unit);
    if (found == waiting.end()) return {};
    Activation taken = std::move(found->second);
    waiting.erase(found);
    return taken;
  }

  [[nodiscard]] std::uint32_t rank_of(std::uint32_t stage) const {
    return e_.comm.mesh().on_pipe(e_.comm.rank(), e_.schedule.rank_of_stage[stage]);
  }

  Status send(std::uint32_t stage, Waiting& waiting, Unit reader) {
    const Activation data = take(waiting, reader);
    return e_.comm.send(rank_of(stage), data.data(), data.size(), {"activations", e_.deadline});
  }

  Status receive(std::uint32_t stage, Waiting& waiting, Unit reader) {
    if (bytes_ == 0) {  // nothing was computed here yet: every micro-batch of a step has as many
      STOKER_TRY(batch, hooks_.fetch(reader.micro_batch));
      bytes_ = model_.activation_bytes(batch);
    }
    Activation data(bytes_);
    STOKER_TRY_STATUS(
        e_.comm.receive(rank_of(stage), data.data(), data.size(), {"activations", e_.deadline}));
    waiting[reader] = std::move(data);
    return ok();
  }

  const Execution& e_;
  Model& model_;
  const ExecutorHooks& hooks_;
  bool training_;
  Waiting inputs_, gradients_;
  std::size_t bytes_ = 0;  // of a micro-batch's activation
  double loss_ = 0;
};

recipe::PipelineSchedule empty_schedule(const std::vector<std::uint32_t>& rank_of_stage,
                                        std::uint32_t micro_batches) {
  recipe::PipelineSchedule schedule;
  schedule.micro_batches = micro_batches;
  schedule.rank_of_stage = rank_of_stage;
  schedule.ranks.resize(1 + *std::max_element(rank_of_stage.begin(), rank_of_stage.end()));
  return schedule;
}

Result<recipe::PipelineSchedule> with_transfers(recipe::PipelineSchedule schedule) {
  recipe::insert_transfers(schedule);
  STOKER_TRY_STATUS(recipe::order_transfers(schedule));
  return schedule;
}

}  // namespace

Result<double> run_schedule(const Execution& execution, Model& model, const ExecutorHooks& hooks) {
  return Runner(execution, model, hooks, true).run();
}

Result<double> run_evaluation(const Execution& execution, Model& model,
                              const ExecutorHooks& hooks) {
  return Runner(execution, model, hooks, false).run();
}

Result<recipe::PipelineSchedule> forward_only(const std::vector<std::uint32_t>& rank_of_stage,
                                              std::uint32_t micro_batches) {
  recipe::PipelineSchedule schedule = empty_schedule(rank_of_stage, micro_batches);
  for (std::uint32_t m = 0; m < micro_batches; ++m)
    for (std::uint32_t stage = 0; stage < schedule.stages(); ++stage)
      schedule.ranks[rank_of_stage[stage]].push_back({OpKind::Forward, stage, m});
  return with_transfers(std::move(schedule));
}

Result<recipe::PipelineSchedule> one_micro_batch(const std::vector<std::uint32_t>& rank_of_stage) {
  recipe::PipelineSchedule schedule = empty_schedule(rank_of_stage, 1);
  for (std::uint32_t stage = 0; stage < schedule.stages(); ++stage)
    schedule.ranks[rank_of_stage[stage]].push_back({OpKind::Forward, stage, 0});
  for (std::uint32_t stage = schedule.stages(); stage-- > 0;)
    schedule.ranks[rank_of_stage[stage]].push_back({OpKind::Backward, stage, 0});
  return with_transfers(std::move(schedule));
}

}  // namespace stoker::train
