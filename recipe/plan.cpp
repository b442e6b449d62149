// Everything in double where it is an estimate, in integers where it is a fact.
#include "recipe/plan.hpp"

#include <algorithm>
#include <cmath>

namespace stoker::recipe {
namespace {

// Time and saves need a speed: the observed one, else the devices' expected TFLOP/s.
void add_times(const TrainConfig& config, const PlanRequest& request, Plan& plan) {
  std::optional<double> speed = request.samples_per_second;
  if (!speed && request.device_tflops) {
    const double ranks = static_cast<double>(request.nodes * request.ranks_per_node);
    const double one =
        step_flops(FlopsConvention::Model, flops_shape(config.model, config.train.recompute), 1);
    if (one > 0) speed = *request.device_tflops * 1e12 * ranks / one;
  }
  if (speed) plan.eta = eta(0, plan.samples, *speed);
  if (speed && *speed > 0)
    plan.iteration_time = from_seconds(static_cast<double>(config.batch.global) / *speed);
  if (request.save_cost && request.mean_time_between_failures)
    plan.save_interval = daly_interval(*request.save_cost, *request.mean_time_between_failures);
  if (plan.save_interval && plan.iteration_time && *plan.iteration_time > 0ns)
    plan.save_every = std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(
               std::llround(to_seconds(*plan.save_interval) / to_seconds(*plan.iteration_time))));
}

}  // namespace

FlopsShape flops_shape(const ModelConfig& m, Recompute recompute) {
  bool again = false;
  switch (recompute) {
    case Recompute::None: again = false; break;
  }
  return {m.layers, m.hidden, m.ffn, m.sequence, m.vocabulary, again, false};
}

std::uint64_t bytes_per_value(Dtype dtype) {
  switch (dtype) {
    case Dtype::F64: return 8;
    case Dtype::F32: return 4;
    case Dtype::Bf16: return 2;
  }
  return 4;
}

MemoryEstimate estimate_memory(const TrainConfig& config, std::uint64_t micro,
                               std::uint64_t data_parallel) {
  const ModelConfig& m = config.model;
  const std::uint64_t parts =
      static_cast<std::uint64_t>(config.parallel.tensor) * config.parallel.pipeline;
  const std::uint64_t on_this_rank =
      parameter_count(flops_shape(m, config.train.recompute)) / std::max<std::uint64_t>(1, parts);
  const auto parameters = static_cast<double>(on_this_rank);
  const double shards =
      config.parallel.zero > 0 ? static_cast<double>(std::max<std::uint64_t>(1, data_parallel)) : 1;
  double each = 0;
  switch (config.train.dtype) {
    case Dtype::F64: each = 16 + 16 / shards; break;
    case Dtype::F32: each = 8 + 8 / shards; break;
    case Dtype::Bf16: each = 6 + 12 / shards; break;
  }
  const double s = static_cast<double>(m.sequence);
  const double b = static_cast<double>(micro);
  const double h = static_cast<double>(m.hidden);
  const double a = static_cast<double>(m.heads);
  const double wide = static_cast<double>(bytes_per_value(config.train.dtype)) / 2;
  const double layer = h > 0 ? s * b * h * (34 + 5 * a * s / h) : 0;
  const double logits = s * b * static_cast<double>(m.vocabulary) * 4 * 2;
  MemoryEstimate memory;
  memory.model_state = static_cast<std::uint64_t>(parameters * each);
  memory.activations =
      static_cast<std::uint64_t>(static_cast<double>(m.layers) * layer * wide + logits);
  return memory;
}

std::uint64_t checkpoint_bytes(const TrainConfig& config) {
  const std::uint64_t each = config.train.dtype == Dtype::F64 ? 24 : 12;
  return each * parameter_count(flops_shape(config.model, config.train.recompute));
}

Result<Plan> make_plan(const TrainConfig& config, const PlanRequest& request) {
  STOKER_TRY(batches, BatchPlan::make(config.batch));
  const FlopsShape shape = flops_shape(config.model, config.train.recompute);
  const RankLayout layout{
      request.ranks_per_node,
      static_cast<std::uint64_t>(config.parallel.tensor) * config.parallel.pipeline};
  if (layout.ranks_per_node == 0 || layout.model_parallel == 0 || request.nodes == 0)
    return fail("a plan needs at least one node, one rank a node and one model-parallel rank");
  Plan plan;
  plan.parameters = parameter_count(shape);
  plan.data_parallel = request.nodes * request.ranks_per_node / layout.model_parallel;
  plan.legal_nodes = legal_node_counts(batches, config.train.samples, layout, request.max_nodes);
  plan.illegal = batches.first_illegal(plan.data_parallel, 0, config.train.samples);
  plan.phases = batches.phases(config.train.samples);
  std::uint64_t largest_micro = 1;
  for (const BatchPhase& phase : plan.phases) {
    plan.iterations += phase.iterations;
    plan.samples += phase.iterations * phase.global;
    largest_micro = std::max(largest_micro, phase.micro);
  }
  plan.tokens = plan.samples * config.model.sequence;
  plan.total_flops = step_flops(FlopsConvention::Model, shape, plan.samples);
  plan.iteration_flops_legacy =
      step_flops(FlopsConvention::LegacyHardware, shape, config.batch.global);
  plan.memory = estimate_memory(config, largest_micro, plan.data_parallel);
  plan.checkpoint_bytes = checkpoint_bytes(config);
  plan.checkpoints = count_saves(config.checkpoint.save, Iteration(plan.iterations));
  add_times(config, request, plan);
  return plan;
}

std::optional<Duration> eta(std::uint64_t consumed, std::uint64_t train_samples,
                            double samples_per_second) {
  if (!(samples_per_second > 0) || !std::isfinite(samples_per_second)) return std::nullopt;
  const double left = consumed >= train_samples ? 0 : static_cast<double>(train_samples - consumed);
  const double seconds = left / samples_per_second;
  if (!(seconds < 9e9)) return std::nullopt;  // beyond what a Duration holds: no answer
  return from_seconds(seconds);
}

}  // namespace stoker::recipe
