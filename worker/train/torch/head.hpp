// Both ends of the GPT around the tied word embedding, whose rows the tensor ranks share: looking
// tokens up, and the loss from logits that are never gathered.
#pragma once

#include "worker/train/torch/block.hpp"

namespace stoker::train {

// Rows of this rank's part of the embedding for tokens [T], summed over the tensor ranks: [T,
// hidden], or of this rank's tokens.
at::Tensor look_up(const TensorTable& table, const Pass& pass, const at::Tensor& tokens);
// Adds upstream's rows [T, hidden] to the gradients of the rows that are held here.
void look_up_backward(const TensorTable& table, const at::Tensor& tokens,
                      const at::Tensor& upstream);

// Of this rank's columns, in f32 (f64): [T, columns].
at::Tensor logits_of(const TensorTable& table, const at::Tensor& norm);

// Of the logits of `norm`. Where ranks share the vocabulary, what is kept is the log softmax of
// this rank's columns, in f32 (f64).
Loss loss_of(const TensorTable& table, const Pass& pass, const at::Tensor& norm,
             const at::Tensor& labels);
// Adds the embedding's gradient of `each` x the sum of the tokens' losses; returns that of `norm`.
// Uses up what the loss kept.
at::Tensor loss_backward(const TensorTable& table, const Pass& pass, const Loss& loss,
                         const at::Tensor& norm, const at::Tensor& labels, double each,
                         Later later);

}  // namespace stoker::train
