// `stoker-train import DIR -o CHECKPOINTS`: a model of Hugging Face's transformers (GPT-2 as
// safetensors) as a checkpoint of iteration 0, which any mesh resumes: the parameters as they are,
// new moments. Strict: what is missing, unknown, misshapen or of another architecture is refused.
#pragma once

#include <string>

namespace stoker::train {

struct ImportOptions {
  std::string folder;       // config.json and model.safetensors, or its shards with their index
  std::string checkpoints;  // -o: where checkpoints are, `checkpoint.directory` of TRAIN.yaml
};

// Prints the checkpoint, and the model: of a TRAIN.yaml that trains on. Exit status 0, 22 (the
// input), 1 (the output), 23 (disk full), with one line on stderr.
int run_import(const ImportOptions& options);

}  // namespace stoker::train
