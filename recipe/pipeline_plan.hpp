// What a pipeline costs a run: for each step of the batch ramp-up the micro-batches and the bubble,
// for each stage its layers, the activations in flight and its memory. Pure arithmetic for
// `stoker plan`; durations are taken as F = I = W (I = 2 with full recomputation), transfers as
// free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recipe/plan.hpp"
#include "recipe/schedule/predict.hpp"

namespace stoker::recipe {

struct PipelinePhase {
  BatchPhase batch;
  std::uint64_t micro_batches = 0;  // of one replica in a step
  std::optional<double> bubble;     // empty: too long to be worked out
  bool falls_back = false;          // they run in 1F1B's order
};

struct StagePlan {           // of a pipeline rank
  std::uint64_t layers = 0;  // of all its chunks
  double in_flight = 0;      // micro-batches whose activations it holds at most
  MemoryEstimate memory;     // of one of its tensor-parallel ranks
};

struct PipelinePlan {
  std::vector<PipelinePhase> phases;
  std::vector<StagePlan> ranks;
};

// The layers of each stage. They must divide evenly, or evenly with the embedding and the head
// counted as a layer each (BLOOM: 70 layers on 12 stages, 5 on the first and the last).
Result<std::vector<std::uint64_t>> split_layers(std::uint64_t layers, std::uint64_t stages);

ScheduleShape schedule_shape(const ParallelConfig& parallel);  // without micro-batches
// Tensor, pipeline and virtual stages against the model: what no number of nodes can make good.
// Error::object is the key in `parallel` that is to blame.
Status check_parallel(const ParallelConfig& parallel, const ModelConfig& model);

// A step with so many micro-batches runs in 1F1B's order (one_f_one_b_on): interleaved needs a
// multiple of the pipeline ranks, a CSV its own number. `csv`: the schedule that was read, where
// the configuration names a file.
bool falls_back(const ParallelConfig& parallel, std::uint64_t micro_batches,
                const PipelineSchedule* csv);
// The phases that do, as a sentence; "" = none.
std::string fallback_text(const ParallelConfig& parallel, const std::vector<BatchPhase>& phases,
                          std::uint64_t data_parallel, const PipelineSchedule* csv);
// The schedule cannot cut the last batch, the one that the run is for, as a sentence. The steps of
// a ramp-up before it fall back.
std::optional<std::string> illegal_micro_batches(const ParallelConfig& parallel,
                                                 const std::vector<BatchPhase>& phases,
                                                 std::uint64_t data_parallel,
                                                 const PipelineSchedule* csv);

// Needs legal phases. Error: the mesh does not fit the model, or the CSV does not fit the mesh.
Result<PipelinePlan> plan_pipeline(const TrainConfig& config, const std::vector<BatchPhase>& phases,
                                   std::uint64_t data_parallel, const PipelineSchedule* csv);

}  // namespace stoker::recipe
