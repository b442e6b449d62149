// The GPT on LibTorch: pre-LN blocks, learned positions, tanh GELU, tied embedding.
// Blocks are functions of the parameter table; forward and backward are written out, so that
// gradients go straight into the flat buffer and what is kept between the passes is explicit.
#pragma once

#include <memory>

#include "worker/train/exchange/generate_command.hpp"
#include "worker/train/model/model.hpp"
#include "worker/train/state/flat_state.hpp"

namespace stoker::train {

class Operators;
const Operators& libtorch_operators();

// The part of the model that `state` holds: its table is gpt_parameters(config, place). Sums over
// the tensor ranks go through `comm`. Both outlive the model.
std::unique_ptr<Model> make_gpt(const recipe::ModelConfig& config, ModelOptions options,
                                FlatState& state, Comm& comm,
                                const Operators& operators = libtorch_operators());

// Of the whole model, in one process. The state outlives it.
Predictor make_predictor(const recipe::ModelConfig& config, FlatState& state);

}  // namespace stoker::train
