// `stoker-train export CHECKPOINT -o DIR`: the model of a checkpoint as a folder that Hugging
// Face's transformers opens: model.safetensors (several files above --shard-size), config.json, and
// the tokenizer's files where the training has a tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/result.hpp"

namespace stoker::train {

inline constexpr std::uint64_t kHuggingFaceShard = 5'000'000'000;  // bytes, as transformers cuts

struct ExportOptions {
  std::string checkpoint;                // its directory, of any mesh
  std::string output;                    // -o: must not exist, or be empty
  std::optional<std::string> tokenizer;  // --tokenizer PREFIX, instead of the training's
  std::uint64_t shard_size = kHuggingFaceShard;
};

// Holds the largest tensor and a few MiB. The folder appears when everything is written. Exit
// status 0, 21 (the checkpoint), 22 (the output), 23 (disk full), with one line on stderr.
int run_export(const ExportOptions& options);

}  // namespace stoker::train
