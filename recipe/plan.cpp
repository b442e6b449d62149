// Everything in double where it is an estimate, in integers where it is a fact.
#include "recipe/plan.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "recipe/pipeline_plan.hpp"
#include "recipe/sequence_plan.hpp"

namespace stoker::recipe {
namespace {

// Time and saves need a speed, in samples of full length: the observed one, else the devices'
// expected TFLOP/s.
void add_times(const TrainConfig& config, const PlanRequest& request, const BatchPlan& batches,
               Plan& plan) {
  std::optional<double> speed = request.samples_per_second;
  if (speed && request.observed_at > 0)
    *speed *= work_share(config, sequence_at(config, Iteration(request.observed_at)));
  if (request.iteration_time && *request.iteration_time > 0ns)
    speed = static_cast<double>(config.batch.global) / to_seconds(*request.iteration_time);
  if (!speed && request.device_tflops) {
    const double ranks = static_cast<double>(request.nodes * request.ranks_per_node);
    const double one =
        step_flops(FlopsConvention::Model, flops_shape(config.model, config.train.recompute), 1);
    if (one > 0) speed = *request.device_tflops * 1e12 * ranks / one;
  }
  const std::uint64_t left =
      full_samples(config, batches, Iteration(request.done), Iteration(plan.iterations));
  if (speed) plan.eta = eta(0, left, *speed);
  if (speed && *speed > 0)
    plan.iteration_time = from_seconds(static_cast<double>(config.batch.global) / *speed);
  if (plan.iteration_time && *plan.iteration_time > 0ns)
    plan.tflops = plan.iteration_flops_legacy /
                  (to_seconds(*plan.iteration_time) *
                   static_cast<double>(request.nodes * request.ranks_per_node) * 1e12);
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
    case Recompute::None:
    case Recompute::Selective: again = false; break;
    case Recompute::Full: again = true; break;
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

namespace {

double state_bytes(const TrainConfig& config, double shards) {  // a parameter
  switch (config.train.dtype) {
    case Dtype::F64: return 16 + 16 / shards;
    case Dtype::F32: return 8 + 8 / shards;
    case Dtype::Bf16: return 6 + 12 / shards;
  }
  return 8 + 8 / shards;
}

// What a GPU takes beside tensors (H200: 0.6 GB of context; cuBLAS, graphs, rounding up).
constexpr std::uint64_t kRuntime = 900'000'000;
// Gradients and temporaries of the backward pass, in bytes a token and column.
constexpr double kWorking = 44;

bool by_gpu_operators(const TrainConfig& c) {
  return c.train.device == DeviceKind::Cuda && c.train.dtype == Dtype::Bf16;
}
// Those that worker/train/torch/gpu_operators.cpp does without.
bool keeps_scores(const TrainConfig& c) {
  if (!by_gpu_operators(c)) return true;
  const std::uint64_t width = c.model.heads > 0 ? c.model.hidden / c.model.heads : 0;
  return c.model.dropout > 0 && (width % 8 != 0 || width > 128);
}

// Of one layer and one sample, at two bytes a value; of whole layers that are recomputed the input.
// `whole`: by how many ranks what is not split by tensor parallelism is shared.
double layer_activations(const TrainConfig& c, double t, double whole, Recompute recompute) {
  const ModelConfig& m = c.model;
  const auto s = static_cast<double>(m.sequence), h = static_cast<double>(m.hidden);
  const auto heads = static_cast<double>(m.heads);
  if (recompute == Recompute::Full) return 2 * s * h / whole;
  double each = 10 / whole + 24 / t, numbers = 0;  // a token and column; a token
  if (by_gpu_operators(c)) {
    each = (m.dropout > 0 ? 12 : 8) / whole + 24 / t;
    numbers = 16 / whole + 4 * heads / t;  // of the norms and of the attention
  }
  if (recompute == Recompute::None && keeps_scores(c) && h > 0) each += 5 * heads * s / (h * t);
  return s * (h * each + numbers);
}

// Of the last stage, for a micro-batch.
double logits(const TrainConfig& c, double micro, double t) {
  const double tokens = static_cast<double>(c.model.sequence) * micro;
  const auto vocabulary = static_cast<double>(c.model.vocabulary);
  if (!by_gpu_operators(c) || t > 1) return tokens * vocabulary * 4 * 2 / t;
  return tokens * (vocabulary + 63) * 2;  // rows begin at aligned addresses
}

// The embedding and the positions on the first stage, the final norm on the last one, which has a
// copy of the embedding where that is another rank.
std::uint64_t stage_parameters(const ModelConfig& m, const StageShare& share) {
  ModelConfig part = m;
  part.layers = share.layers;
  std::uint64_t count = parameter_count(flops_shape(part, Recompute::None));
  if (!share.first) count -= m.sequence * m.hidden;
  if (!share.last) count -= 2 * m.hidden;
  if (!share.first && !share.last) count -= m.vocabulary * m.hidden;
  return count;
}

}  // namespace

MemoryEstimate estimate_stage(const TrainConfig& config, const StageShare& share,
                              std::uint64_t data_parallel) {
  const ModelConfig& m = config.model;
  const auto t = static_cast<double>(std::max<std::uint32_t>(1, config.parallel.tensor));
  const double shards =
      config.parallel.zero > 0 ? static_cast<double>(std::max<std::uint64_t>(1, data_parallel)) : 1;
  const double wide = static_cast<double>(bytes_per_value(config.train.dtype)) / 2;
  // Layers at a time are computed again; of all the others only what is kept.
  const std::uint64_t again = std::min(config.train.recompute_every, share.layers);
  double kept = static_cast<double>(share.layers);
  if (config.train.recompute == Recompute::Full)
    kept = std::ceil(kept / static_cast<double>(config.train.recompute_every));
  const double whole = config.parallel.sequence ? t : 1;
  double activations =
      kept * share.samples * layer_activations(config, t, whole, config.train.recompute);
  if (config.train.recompute == Recompute::Full ||
      (config.train.recompute == Recompute::Selective && keeps_scores(config)))
    activations += static_cast<double>(again) * share.micro *
                   layer_activations(config, t, whole, Recompute::None);
  if (by_gpu_operators(config))
    activations += kWorking * share.micro * static_cast<double>(m.sequence * m.hidden);
  MemoryEstimate memory;
  memory.model_state = static_cast<std::uint64_t>(static_cast<double>(stage_parameters(m, share)) /
                                                  t * state_bytes(config, shards));
  memory.activations = static_cast<std::uint64_t>(
      activations * wide + (share.last ? logits(config, share.micro, t) : 0));
  if (config.train.device == DeviceKind::Cuda) memory.runtime = kRuntime;
  return memory;
}

MemoryEstimate estimate_memory(const TrainConfig& config, std::uint64_t micro,
                               std::uint64_t data_parallel) {
  const auto samples = static_cast<double>(micro);
  return estimate_stage(config, {config.model.layers, true, true, samples, samples}, data_parallel);
}

std::uint64_t checkpoint_bytes(const TrainConfig& config) {
  const std::uint64_t each = config.train.dtype == Dtype::F64 ? 24 : 12;
  return each * parameter_count(flops_shape(config.model, config.train.recompute));
}

namespace {

// After the last step that does not fit; empty when all fit, or not even the last one does.
std::optional<BatchPhase> legal_after(const std::vector<BatchPhase>& phases, std::uint64_t dp) {
  std::optional<BatchPhase> after;
  bool bad = false;
  for (const BatchPhase& phase : phases) {
    const bool fits = dp > 0 && phase.global % (phase.micro * dp) == 0;
    if (!fits) {
      bad = true;
      after.reset();
    } else if (bad && !after) {
      after = phase;
    }
  }
  return after;
}

Status add_pipeline(const TrainConfig& config, const PlanRequest& request, RankLayout layout,
                    Plan& plan) {
  if (const Status fits = check_parallel(config.parallel, config.model); !fits)
    return fail(fits.error().what, "parallel." + fits.error().object);
  const PipelineSchedule* csv = request.schedule;
  std::vector<BatchPhase> phases = plan.phases;
  std::erase_if(phases, [&](const BatchPhase& phase) {
    return phase.consumed + phase.iterations * phase.global <= request.from;
  });
  const std::uint64_t ranks = request.nodes * request.ranks_per_node;
  std::erase_if(plan.legal_nodes, [&](std::uint64_t nodes) {
    return illegal_micro_batches(config.parallel, phases,
                                 nodes * layout.ranks_per_node / layout.model_parallel, csv)
        .has_value();
  });
  if (ranks % layout.model_parallel != 0) {
    plan.illegal.reset();
    plan.illegal_mesh =
        fmt::format("{} ranks do not split into groups of {} (tensor {} x pipeline {})", ranks,
                    layout.model_parallel, config.parallel.tensor, config.parallel.pipeline);
    return ok();
  }
  if (plan.illegal) {
    plan.legal_from = legal_after(plan.phases, plan.data_parallel);
    return ok();
  }
  plan.illegal_mesh = illegal_micro_batches(config.parallel, phases, plan.data_parallel, csv);
  if (plan.illegal_mesh || (config.parallel.pipeline == 1 && csv == nullptr)) return ok();
  STOKER_TRY(pipeline, plan_pipeline(config, phases, plan.data_parallel, csv));
  for (const StagePlan& rank : pipeline.ranks)
    if (rank.memory.total() > plan.memory.total()) plan.memory = rank.memory;
  plan.pipeline = std::make_shared<const PipelinePlan>(std::move(pipeline));
  return ok();
}

// Two generations of each rank's shard, and where there is a next node the same of its ranks. Of
// the rank that needs most.
void add_snapshots(const TrainConfig& config, const PlanRequest& request, Plan& plan) {
  if (config.checkpoint.memory_every == 0 || plan.data_parallel == 0) return;
  const auto replicas = static_cast<double>(plan.data_parallel);
  const double shards = config.parallel.zero > 0 ? replicas : 1;
  const double parameters =
      static_cast<double>(plan.memory.model_state) / state_bytes(config, shards);
  const double shard = parameters * (config.train.dtype == Dtype::F64 ? 24 : 12) / replicas;
  const double copies = request.nodes > 1 ? 4 : 2;
  plan.snapshot_bytes =
      static_cast<std::uint64_t>(shard * copies * static_cast<double>(request.ranks_per_node));
  const bool on_cpu = config.train.device == DeviceKind::Cpu;
  plan.node_bytes =
      plan.snapshot_bytes + (on_cpu ? request.ranks_per_node * plan.memory.total() : 0);
}

}  // namespace

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
  plan.legal_nodes =
      legal_node_counts(batches, config.train.samples, layout, request.max_nodes, request.from);
  plan.illegal = batches.first_illegal(plan.data_parallel, request.from, config.train.samples);
  plan.phases = batches.phases(config.train.samples);
  std::uint64_t largest_micro = 1;
  for (const BatchPhase& phase : plan.phases) {
    plan.iterations += phase.iterations;
    plan.samples += phase.iterations * phase.global;
    largest_micro = std::max(largest_micro, phase.micro);
  }
  const Iteration end(plan.iterations);
  plan.tokens = tokens_after(config, batches, end, plan.samples);
  plan.total_flops =
      step_flops(FlopsConvention::Model, shape, full_samples(config, batches, Iteration(0), end));
  plan.iteration_flops_legacy =
      step_flops(FlopsConvention::LegacyHardware, shape, config.batch.global);
  plan.consumed = batches.consumed_after(Iteration(request.done));
  if (config.parallel.pipeline == 1)
    plan.memory = estimate_memory(config, largest_micro, plan.data_parallel);
  plan.replica_bytes =
      static_cast<std::uint64_t>(static_cast<double>(plan.parameters) * state_bytes(config, 1));
  STOKER_TRY_STATUS(add_pipeline(config, request, layout, plan));
  add_snapshots(config, request, plan);
  plan.checkpoint_bytes = checkpoint_bytes(config);
  plan.checkpoints = count_saves(config.checkpoint.save, Iteration(plan.iterations));
  add_times(config, request, batches, plan);
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
