// A tiny GPT with its state, and micro-batches from a fixed rule: what the tests of the tensor part
// share.
#pragma once

#include <memory>

#include "worker/train/comm/self_comm.hpp"
#include "worker/train/torch/gpt.hpp"

namespace stoker::train::testing {

inline recipe::ModelConfig tiny_config(double dropout = 0.0) {
  recipe::ModelConfig c;
  c.layers = 2, c.hidden = 16, c.heads = 2, c.ffn = 32, c.sequence = 8, c.vocabulary = 23;
  c.dropout = dropout;
  c.init_std = 0.2;  // large enough that every gradient is far from rounding noise
  return c;
}

inline MicroBatch tiny_batch(const recipe::ModelConfig& c, std::uint64_t first,
                             std::uint64_t count) {
  MicroBatch batch;
  for (std::uint64_t id = first; id < first + count; ++id) {
    batch.samples.push_back(id);
    for (std::uint64_t i = 0; i <= c.sequence; ++i)
      batch.tokens.push_back(static_cast<std::int64_t>((id * 31 + i * 7 + id * i) % c.vocabulary));
  }
  return batch;
}

// One rank's part of the model; alone it is all of it.
struct TinyModel {
  explicit TinyModel(const recipe::ModelConfig& config, recipe::Dtype dtype = recipe::Dtype::F64)
      : TinyModel(config, dtype, gpt_parameters(config, whole_model(config)), nullptr) {}
  TinyModel(const recipe::ModelConfig& config, recipe::Dtype dtype, ParameterTable table,
            Comm* peers, ModelOptions options = {7, 1min})
      : TinyModel(config, FlatState::allocate(std::move(table), dtype).value(), peers, options) {}
  TinyModel(const recipe::ModelConfig& config, FlatState allocated, Comm* peers,
            ModelOptions options)
      : state(std::move(allocated)) {
    state.initialise(7);
    model = make_gpt(config, options, state, peers != nullptr ? *peers : alone);
  }
  // Of a model of one stage.
  Result<double> forward(const MicroBatch& batch) const {
    Activation none;
    return model->forward({}, batch, none, none);
  }
  Result<double> evaluate(const MicroBatch& batch) const {
    Activation none;
    return model->evaluate({}, batch, none, none);
  }
  Status backward(double weight) const {
    Activation none;
    return model->backward({}, weight, none, none);
  }

  SelfComm alone;
  FlatState state;
  std::unique_ptr<Model> model;
};

}  // namespace stoker::train::testing
