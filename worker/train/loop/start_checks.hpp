// What a start checks before it waits for a peer: data, mesh, and every batch ahead. The dry run
// checks the same.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "configs/schema/train_schema.hpp"
#include "worker/train/data/training_data.hpp"
#include "worker/train/loop/pipeline.hpp"

namespace stoker::train {

struct InputData {
  TrainingData train;
  std::optional<TrainingData> validation;  // where the training evaluates
};
Result<InputData> open_input(const recipe::TrainConfig& config);
// False: a cached index was found damaged since then.
bool is_current(const InputData& data);

// The world as a mesh; the data-parallel size is what is left of it. Error: ranks are left over.
Result<Mesh> mesh_of(const recipe::TrainConfig& config, std::uint32_t world);

// What happens to batches: every step from `from` consumed samples on is judged, because a run that
// has left its ramp-up behind may use more ranks than the first steps of it could feed. Without
// `from`, only the last step of the run.
Status check_batches(const recipe::TrainConfig& config, const Pipeline& pipeline, const Mesh& mesh,
                     std::uint64_t ranks_per_node, std::optional<std::uint64_t> from);

// "train.yaml:6:12: error: …", at the first of these keys that the file gives.
std::string refusal(const configs::TrainConfigFile& file, const std::string& path,
                    const std::vector<std::vector<std::string>>& keys, const Error& error);
std::string mesh_refusal(const configs::TrainConfigFile& file, const std::string& path,
                         const Error& error);
std::string batch_refusal(const configs::TrainConfigFile& file, const std::string& path,
                          const Error& error);

}  // namespace stoker::train
