// The GPT on LibTorch's CPU operators: pre-LN blocks, learned positions, tanh GELU, tied embedding.
// Blocks are functions of the parameter table; forward and backward are written out, so that
// gradients go straight into the flat buffer and what is kept between the passes is explicit.
#pragma once

#include <memory>

#include "worker/train/exchange/generate_command.hpp"
#include "worker/train/model/model.hpp"
#include "worker/train/state/flat_state.hpp"

namespace stoker::train {

// The part of the model that `state` holds: its table is gpt_parameters(config, place). Sums over
// the tensor ranks go through `comm`. Both outlive the model.
std::unique_ptr<Model> make_gpt(const recipe::ModelConfig& config, ModelOptions options,
                                FlatState& state, Comm& comm);

// Of the whole model, in one process. The state outlives it.
Predictor make_predictor(const recipe::ModelConfig& config, FlatState& state);

// Sets the number of threads of LibTorch and of the BLAS below it, and runs each kind of operator
// once, so that the first iteration does not pay for it.
void warm_up_torch(std::uint32_t threads);
// What "exact" depends on: library, BLAS, CPU capability.
std::map<std::string, std::string> torch_numerics();

}  // namespace stoker::train
