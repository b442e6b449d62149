// The dry run's answer as text: a few lines about the whole, then a row a pipeline rank.
#pragma once

#include <string>

#include "worker/train/loop/mesh_walk.hpp"

namespace stoker::train {

struct DryFacts {
  Mesh mesh;
  std::uint32_t ranks_per_node = 1;
  std::string data;       // "": was not read
  std::string begins;     // "at sample 0: no checkpoint in checkpoints"
  std::string guarantee;  // of the resume; "" when it begins from scratch
  std::string fallback;   // Pipeline::fallback
};

// Without a walk only the lines about the whole.
std::string dry_run_table(const recipe::TrainConfig& config, const DryFacts& facts,
                          const MeshWalk* walk, const recipe::PipelinePlan* plan);

}  // namespace stoker::train
