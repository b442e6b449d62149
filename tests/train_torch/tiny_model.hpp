// A tiny GPT with its state, and micro-batches from a fixed rule: what the tests of the tensor part
// share.
#pragma once

#include <memory>

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

struct TinyModel {
  explicit TinyModel(const recipe::ModelConfig& config, recipe::Dtype dtype = recipe::Dtype::F64)
      : state(std::move(*FlatState::allocate(gpt_parameters(config), dtype))) {
    state.initialise(7);
    model = make_gpt(config, 7, state);
  }
  FlatState state;
  std::unique_ptr<Model> model;
};

}  // namespace stoker::train::testing
