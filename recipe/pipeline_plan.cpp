#include "recipe/pipeline_plan.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace stoker::recipe {
namespace {

constexpr std::uint64_t kMostSimulated = 30'000'000;  // operations, of all phases

Status check_csv(const PipelineSchedule& csv, const ParallelConfig& parallel) {
  if (csv.ranks.size() != parallel.pipeline)
    return fail(
        fmt::format("has {} ranks, parallel.pipeline is {}", csv.ranks.size(), parallel.pipeline),
        csv.file);
  return ok();
}

std::vector<std::uint32_t> owners(const ParallelConfig& parallel, const PipelineSchedule* csv) {
  if (csv != nullptr) return csv->rank_of_stage;
  ScheduleShape shape = schedule_shape(parallel);
  shape.micro_batches = shape.ranks;  // legal for every kind
  const auto schedule = make_schedule(shape);
  return schedule ? schedule->rank_of_stage : std::vector<std::uint32_t>{};
}

Result<StepPrediction> predict_one(const ParallelConfig& parallel, const PipelinePhase& phase,
                                   const std::vector<std::uint32_t>& owner,
                                   const PipelineSchedule* csv, const OpTimes& times) {
  const auto m =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(phase.micro_batches, 0xffffffff));
  if (phase.falls_back) return predict_step(one_f_one_b_on(owner, m), times);
  ScheduleShape shape = schedule_shape(parallel);
  shape.micro_batches = m;
  return csv != nullptr ? predict_step(*csv, times) : predict_step(shape, times);
}

std::uint64_t micro_batches_of(const BatchPhase& batch, std::uint64_t data_parallel) {
  return batch.global / batch.micro / std::max<std::uint64_t>(1, data_parallel);
}

// Error: the schedule has no form for so many.
Status cuts(const ParallelConfig& parallel, std::uint64_t micro_batches,
            const PipelineSchedule* csv) {
  if (csv == nullptr) {
    ScheduleShape shape = schedule_shape(parallel);
    shape.micro_batches =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(micro_batches, 0xffffffff));
    return check_micro_batches(shape);
  }
  if (micro_batches == csv->micro_batches) return ok();
  return fail(fmt::format("{} micro-batches, the schedule {} is for {}", micro_batches, csv->file,
                          csv->micro_batches));
}

std::string phase_text(const BatchPhase& batch, std::uint64_t data_parallel,
                       const std::string& what) {
  return fmt::format(
      "global batch {} at iteration {} ({} consumed samples) with {} "
      "data-parallel ranks: {}",
      batch.global, batch.first_iteration + 1, batch.consumed, data_parallel, what);
}

// Of each phase, and the peak of each rank over all of them.
struct Steps {
  std::vector<PipelinePhase> phases;
  std::vector<double> peak;
  std::vector<double> samples;  // peak times micro-batch: what memory follows
};

Result<Steps> predict_steps(const TrainConfig& config, const std::vector<BatchPhase>& phases,
                            std::uint64_t data_parallel, const PipelineSchedule* csv) {
  const OpTimes times{1, config.train.recompute == Recompute::Full ? 2.0 : 1.0, 1, 0};
  Steps steps;
  steps.peak.assign(config.parallel.pipeline, 0);
  steps.samples = steps.peak;
  std::map<std::uint64_t, StepPrediction> known;  // by micro-batches
  std::uint64_t simulated = 0;
  for (const BatchPhase& batch : phases) {
    const std::uint64_t m = batch.global / batch.micro / data_parallel;
    steps.phases.push_back({batch, m, std::nullopt, falls_back(config.parallel, m, csv)});
  }
  const auto owner = owners(config.parallel, csv);
  for (auto phase = steps.phases.rbegin(); phase != steps.phases.rend(); ++phase) {
    const std::uint64_t m = phase->micro_batches;  // the full batch first: it is never left out
    if (!known.contains(m) && simulated < kMostSimulated) {
      if (phase->falls_back && m * owner.size() * 2 > kMostScheduleOps) continue;
      STOKER_TRY(step, predict_one(config.parallel, *phase, owner, csv, times));
      simulated += step.simulated;
      known.emplace(m, std::move(step));
    }
    const auto step = known.find(m);
    if (step == known.end()) continue;
    phase->bubble = step->second.bubble;
    for (std::size_t r = 0; r < steps.peak.size(); ++r) {
      const double peak = step->second.peak[r];
      steps.peak[r] = std::max(steps.peak[r], peak);
      steps.samples[r] = std::max(steps.samples[r], peak * static_cast<double>(phase->batch.micro));
    }
  }
  return steps;
}

}  // namespace

Result<std::vector<std::uint64_t>> split_layers(std::uint64_t layers, std::uint64_t stages) {
  if (stages == 0) return fail("a pipeline has at least 1 stage");
  if (layers % stages == 0) return std::vector<std::uint64_t>(stages, layers / stages);
  if ((layers + 2) % stages != 0)
    return fail(
        fmt::format("{} layers do not split over {} stages: layers, or layers + 2 with the "
                    "embedding and the head as one each, must be a multiple",
                    layers, stages));
  std::vector<std::uint64_t> split(stages, (layers + 2) / stages);
  --split.front();
  --split.back();
  return split;
}

ScheduleShape schedule_shape(const ParallelConfig& parallel) {
  return {parallel.schedule, parallel.pipeline,
          chunks_of(parallel.schedule, parallel.virtual_stages), 1};
}

Status check_parallel(const ParallelConfig& parallel, const ModelConfig& model) {
  const std::uint64_t t = parallel.tensor;
  if (t == 0 || t > kMostPipelineRanks)
    return fail(fmt::format("must be between 1 and {}", kMostPipelineRanks), "tensor");
  if (model.heads % t != 0)
    return fail(fmt::format("{} heads are not a multiple of tensor {}", model.heads, t), "tensor");
  if (model.ffn % t != 0)
    return fail(fmt::format("ffn {} is not a multiple of tensor {}", model.ffn, t), "tensor");
  if (parallel.sequence && model.sequence % t != 0)
    return fail(
        fmt::format("the model's sequence {} is not a multiple of tensor {}", model.sequence, t),
        "sequence");
  ScheduleShape shape{parallel.schedule, parallel.pipeline, 1, 1};
  if (shape.ranks == 0 || shape.ranks > kMostPipelineRanks)
    return fail(fmt::format("must be between 1 and {}", kMostPipelineRanks), "pipeline");
  shape.chunks = parallel.virtual_stages;
  if (const Status mesh = check_mesh(shape); !mesh)
    return fail(mesh.error().what, "virtual_stages");
  if (parallel.schedule == ScheduleKind::Csv) return ok();  // its stages are in the file
  const auto split = split_layers(
      model.layers, std::uint64_t{parallel.pipeline} * schedule_shape(parallel).chunks);
  if (!split) return fail(split.error().what, "pipeline");
  return ok();
}

bool falls_back(const ParallelConfig& parallel, std::uint64_t micro_batches,
                const PipelineSchedule* csv) {
  return !cuts(parallel, micro_batches, csv);
}

std::string fallback_text(const ParallelConfig& parallel, const std::vector<BatchPhase>& phases,
                          std::uint64_t data_parallel, const PipelineSchedule* csv) {
  if (parallel.pipeline == 1 && csv == nullptr) return "";
  std::string first;
  std::uint64_t iterations = 0;
  for (const BatchPhase& batch : phases) {
    const auto cut = cuts(parallel, micro_batches_of(batch, data_parallel), csv);
    if (cut) continue;
    if (first.empty()) first = phase_text(batch, data_parallel, cut.error().what);
    iterations += batch.iterations;
  }
  if (first.empty()) return "";
  return fmt::format("{} iterations run in 1F1B's order; the first: {}", iterations, first);
}

std::optional<std::string> illegal_micro_batches(const ParallelConfig& parallel,
                                                 const std::vector<BatchPhase>& phases,
                                                 std::uint64_t data_parallel,
                                                 const PipelineSchedule* csv) {
  if ((parallel.pipeline == 1 && csv == nullptr) || phases.empty()) return std::nullopt;
  const BatchPhase& last = phases.back();
  const auto cut = cuts(parallel, micro_batches_of(last, data_parallel), csv);
  if (cut) return std::nullopt;
  return phase_text(last, data_parallel, cut.error().what);
}

Result<PipelinePlan> plan_pipeline(const TrainConfig& config, const std::vector<BatchPhase>& phases,
                                   std::uint64_t data_parallel, const PipelineSchedule* csv) {
  if (csv != nullptr) STOKER_TRY_STATUS(check_csv(*csv, config.parallel));
  const auto owner = owners(config.parallel, csv);
  STOKER_TRY(split, split_layers(config.model.layers, owner.size()));
  STOKER_TRY(steps, predict_steps(config, phases, data_parallel, csv));
  PipelinePlan plan;
  plan.phases = std::move(steps.phases);
  plan.ranks.resize(config.parallel.pipeline);
  std::vector<StageShare> shares(plan.ranks.size());
  for (std::size_t stage = 0; stage < owner.size(); ++stage) {
    StageShare& share = shares[owner[stage]];
    share.layers += split[stage];
    share.first = share.first || stage == 0;
    share.last = share.last || stage + 1 == owner.size();
  }
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    shares[r].samples = steps.samples[r];
    for (const BatchPhase& batch : phases)
      shares[r].micro = std::max(shares[r].micro, static_cast<double>(batch.micro));
    plan.ranks[r] = {shares[r].layers, steps.peak[r],
                     estimate_stage(config, shares[r], data_parallel)};
  }
  return plan;
}

}  // namespace stoker::recipe
