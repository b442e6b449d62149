// Both ends of the GPT around the tied word embedding, whose rows the tensor ranks share: looking
// tokens up, and the loss from logits that are never gathered.
#pragma once

#include "worker/train/torch/block.hpp"

namespace stoker::train {

// Rows of this rank's part of the embedding for tokens [T], summed over the tensor ranks: [T,
// hidden], or of this rank's tokens. Throws c10::Error for a token outside the vocabulary.
at::Tensor look_up(const TensorTable& table, const Pass& pass, const at::Tensor& tokens);
// Adds upstream's rows [T, hidden] to the gradients of the rows that are held here.
void look_up_backward(const TensorTable& table, const at::Tensor& tokens,
                      const at::Tensor& upstream);

// Of this rank's columns, in f32 (f64): [T, columns].
at::Tensor logits_of(const TensorTable& table, const at::Tensor& norm);

// log softmax of this rank's columns of the logits, [T, columns], in f32 (f64); `labels` [T] give
// `mean`, the mean loss of a token.
struct Loss {
  at::Tensor log_probability;
  double mean = 0;
};
Loss loss_of(const TensorTable& table, const Pass& pass, const at::Tensor& norm,
             const at::Tensor& labels);
// Adds the embedding's gradient of `each` x the sum of the tokens' losses; returns that of `norm`.
// Uses up the log probabilities.
at::Tensor loss_backward(const TensorTable& table, const Pass& pass,
                         const at::Tensor& log_probability, const at::Tensor& norm,
                         const at::Tensor& labels, double each, Later later);

}  // namespace stoker::train
