// TRAIN.yaml: the strict schema of the training core's configuration. Fills recipe::TrainConfig
// (plain values with the defaults of the contract) or reports every error with its place. Also
// judged here: batches that no number of ranks could fit.
#pragma once

#include <string>
#include <string_view>

#include "common/result.hpp"
#include "configs/schema/yaml_reader.hpp"
#include "recipe/train_config.hpp"

namespace stoker::configs {

using recipe::TrainConfig;

struct TrainConfigFile {
  TrainConfig config;
  Diagnostics errors;                  // empty: `config` may be used
  std::string effective;               // the whole configuration with the origin of each value
  std::vector<EffectiveValue> values;  // the same, one by one
  Position batch_at;  // of batch.ramp_up, else batch.global: where a batch that does not fit is to
                      // be reported
};

TrainConfigFile read_train_config(std::string_view text, const std::string& file);

// The same from a file; an Error only when it cannot be read at all.
Result<TrainConfigFile> load_train_config(const std::string& path);

}  // namespace stoker::configs
