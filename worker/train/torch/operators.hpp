// Operators: what the GPT is computed with, apart from how the ranks share it. These are
// LibTorch's, for every type and device; GpuOperators has faster ones for bf16 on a GPU. Numbers
// that are added up are added in f32 (f64 for f64 models) and rounded once. To add one for a GPU: a
// virtual function here, LibTorch's form in operators.cpp, the faster one in gpu_operators.cpp,
// which falls back on the first. tests/gpu/training.py holds the GPU against the CPU.
#pragma once

#include <ATen/ATen.h>
#include <functional>
#include <memory>
#include <vector>

#include "worker/train/torch/pass.hpp"

namespace stoker::train {

inline constexpr double kNormEps = 1e-5;

class Operators;

struct NormTrace {  // of a layer norm; mean and rstd in f32 (f64)
  at::Tensor norm, mean, rstd;
};

// What a layer's attention keeps for its backward pass. Either the scores' softmax and its dropout,
// or what a kernel without the matrix of scores needs.
struct AttentionTrace {
  std::uint32_t layer = 0;
  at::Tensor qkv;          // as the operators keep it
  at::Tensor probability;  // [samples * H, s, s], before dropout
  at::Tensor mask, dropped;
  at::Tensor out, log_sum, seed, offset;
};

// gradient += factor x left^T right, now or later.
struct Product {
  const Operators* operators = nullptr;
  at::Tensor gradient, left, right;
  double factor = 1;
  void add() const;
};
// Products for weights that wait (zero-bubble schedules); null: none waits.
using Later = std::vector<Product>*;
void add_product(const Product& product, Later later);

// `kept` is what the backward pass needs of the logits [T, vocabulary], and is used up by it.
struct Loss {
  at::Tensor kept;
  at::Tensor mean;  // of a token: one number, f64
};

class Operators {
 public:
  virtual ~Operators() = default;

  // a [m, k] x b [k, n], plus the bias [n] where it is defined, in the type of a.
  [[nodiscard]] virtual at::Tensor product(const at::Tensor& a, const at::Tensor& b,
                                           const at::Tensor& bias = {}) const;
  // The product in f32 (f64), for a sum over ranks.
  [[nodiscard]] virtual at::Tensor wide_product(const at::Tensor& a, const at::Tensor& b) const;
  // gradient += factor x left^T right; the gradient is f32 (f64).
  virtual void add_product(const at::Tensor& gradient, const at::Tensor& left,
                           const at::Tensor& right, double factor) const;
  // gradient += the sums of the columns of `value`.
  virtual void add_columns(const at::Tensor& gradient, const at::Tensor& value) const;

  [[nodiscard]] virtual NormTrace norm(const at::Tensor& input, const at::Tensor& weight,
                                       const at::Tensor& bias) const;
  struct NormGradients {  // added to
    at::Tensor weight, bias;
  };
  // Returns the gradient of the input plus `beside`, where that is defined.
  [[nodiscard]] virtual at::Tensor norm_backward(const at::Tensor& upstream,
                                                 const at::Tensor& input, const NormTrace& trace,
                                                 const at::Tensor& weight, const at::Tensor& bias,
                                                 const NormGradients& gradients,
                                                 const at::Tensor& beside = {}) const;
  // `sum` = residual + value, and its norm.
  [[nodiscard]] virtual NormTrace sum_norm(const at::Tensor& residual, const at::Tensor& value,
                                           const at::Tensor& weight, const at::Tensor& bias,
                                           at::Tensor& sum) const;

  // Causal attention: from queries, keys and values [T, H x 3 x d] to [T, H x d]. `causal` is [s,
  // s] with 0 on and below the diagonal and -inf above.
  virtual at::Tensor attention(std::uint32_t layer, const Pass& pass, const at::Tensor& causal,
                               const at::Tensor& qkv, AttentionTrace& trace) const;
  // Returns the gradient [T, H x 3 x d].
  [[nodiscard]] virtual at::Tensor attention_backward(const Pass& pass, const AttentionTrace& trace,
                                                      const at::Tensor& upstream) const;
  // Drops from a trace what is large, and computes it again.
  virtual void forget(AttentionTrace& trace) const;
  virtual void complete(std::uint32_t layer, const Pass& pass, const at::Tensor& causal,
                        AttentionTrace& trace) const;

  // Mean cross entropy of the logits norm [T, hidden] x word^T, and the gradient of `each` x the
  // sum of the tokens' losses: that of the word embedding is added, that of `norm` returned.
  [[nodiscard]] virtual Loss loss(const at::Tensor& norm, const at::Tensor& word,
                                  const at::Tensor& labels) const;
  [[nodiscard]] virtual at::Tensor loss_backward(const Loss& loss, const at::Tensor& norm,
                                                 const at::Tensor& word, const at::Tensor& labels,
                                                 double each, const at::Tensor& word_gradient,
                                                 Later later) const;
  // Device::record of what `queue` computes with LibTorch and these operators. What it allocates
  // stays allocated as long as the recording.
  virtual std::unique_ptr<Recorded> record(Device& device,
                                           const std::function<void()>& queue) const;
  // gradient[tokens[i]] += upstream[i], row by row in their order; tokens [n], upstream [n,
  // hidden].
  virtual void add_rows(const at::Tensor& tokens, const at::Tensor& upstream,
                        const at::Tensor& gradient) const;
};

// They live as long as the process.
const Operators& libtorch_operators();

// bf16 is a type to keep numbers in, not to add in: products, norms and softmax are computed in f32
// and rounded once. (The CPU multiplies bf16 at a hundredth of the speed of f32, and a sum of 4,096
// bf16 numbers loses half of its value.) Other types pass through.
at::Tensor wide(const at::Tensor& tensor);
at::Tensor like(const at::Tensor& tensor, const at::Tensor& other);

}  // namespace stoker::train
