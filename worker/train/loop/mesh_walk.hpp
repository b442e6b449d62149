// MeshWalk: what every rank of a mesh would hold and run, worked out in one process without a model
// and without a peer: its place, its boxes of the parameters, its state and its schedules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recipe/pipeline_plan.hpp"
#include "worker/train/loop/pipeline.hpp"
#include "worker/train/model/parameter_table.hpp"

namespace stoker::train {

struct StageNeed {  // of the rank that needs most of those on one pipeline rank
  std::uint32_t first_rank = 0, last_rank = 0;
  std::string layers;            // "0-4", or "0-1, 8-9" with several chunks
  std::uint64_t parameters = 0;  // in its boxes
  double in_flight = 0;          // micro-batches whose activations it holds at most
  std::uint64_t state = 0, activations = 0, runtime = 0;  // the last is CUDA's own
  std::uint64_t save_copy = 0;  // in main memory, beside an asynchronous save
  [[nodiscard]] std::uint64_t total() const { return state + activations + runtime; }
};

struct ScheduleWalk {
  std::size_t lengths = 0, walked = 0;          // different numbers of micro-batches
  std::uint64_t least = 0, most = 0, full = 0;  // micro-batches of a step, and of the last one
};

struct MeshWalk {
  std::vector<StageNeed> stages;  // by pipeline rank
  std::uint64_t parameters = 0;   // of the model
  std::size_t tensors = 0;
  std::uint64_t largest_shard = 0, saved = 0;  // bytes of a rank's part of a save, and of all
  ScheduleWalk schedules;
};

// `phases` are the batches ahead, all of them legal. Errors: an element that no rank of a replica
// holds, or two do; a schedule that cannot be built or would hang.
Result<MeshWalk> walk_mesh(const recipe::TrainConfig& config, const ModelLayout& layout,
                           Pipeline& pipeline, const std::vector<recipe::BatchPhase>& phases,
                           const recipe::PipelinePlan& plan);

}  // namespace stoker::train
