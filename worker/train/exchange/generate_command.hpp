// `stoker-train generate CHECKPOINT --prompt TEXT`: what a model writes. The same text for the same
// checkpoint, prompt and seed on one machine, on which mesh it was trained: one process computes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "worker/train/exchange/sampling.hpp"
#include "worker/train/state/flat_state.hpp"

namespace stoker::train {

// The logits of the token after `tokens`, of which there are 1 to the model's sequence.
using Predictor = std::function<Result<std::vector<double>>(std::span<const std::int64_t> tokens)>;
// What the tensor library gives; the state outlives the predictor.
using MakePredictor = std::function<Predictor(const recipe::ModelConfig&, FlatState&)>;

struct GenerateOptions {
  std::string checkpoint;
  std::string prompt;         // empty: the end-of-document token
  std::uint64_t tokens = 64;  // at most; ends at an end of document
  SamplingRule rule;
  std::uint32_t threads = 1;
  std::optional<std::string> tokenizer;  // PREFIX, instead of the training's
  bool json = false;                     // tokens and their log probabilities, too
};

// Tokens beyond the model's sequence push the first ones out of its view. Exit status 0, 21 (the
// checkpoint), 22 (options, tokenizer), 1, with one line on stderr.
int run_generate(const GenerateOptions& options, const MakePredictor& make);

}  // namespace stoker::train
