// `stoker-train evaluate --checkpoint C --config TRAIN.yaml`: the loss on the validation split, of
// each data set and blended, over the samples that the training validates on: the same ones for
// every checkpoint of a run.
#pragma once

#include <string>

#include "worker/train/loop/session.hpp"

namespace stoker::train {

struct EvaluateOptions {
  std::string checkpoint;  // of any mesh; a copy for inference or an import as well
  std::string config;      // TRAIN.yaml: data, evaluate.iterations, dtype
  bool json = false;
};

// In one process. Exit status 0, 21 (the checkpoint), 22 (configuration, data), 1, with the reason
// on stderr.
int run_evaluate(const EvaluateOptions& options, const Backend& backend);

}  // namespace stoker::train
