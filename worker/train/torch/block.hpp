// One transformer block as two functions of a parameter table. Activations are [tokens, hidden]
// with tokens = samples x sequence; T stands for them, H for this rank's heads, s for sequence, d
// for the size of a head. Tensor parallel: whole heads and columns of the MLP are split,
// activations between blocks are the same bits on all tensor ranks, or with sequence parallelism
// their tokens are split.
#pragma once

#include <ATen/ATen.h>

#include "kernels/dropout.hpp"
#include "worker/train/comm/comm.hpp"
#include "worker/train/model/model.hpp"
#include "worker/train/model/parameter_table.hpp"

namespace stoker::train {

inline constexpr double kNormEps = 1e-5;

// Views of the flat buffers, one entry a parameter of the table, and the ranks that hold the rest
// of split parameters.
struct TensorTable {
  std::vector<at::Tensor> values;     // in the model's type
  std::vector<at::Tensor> gradients;  // f32 (f64)
  const ParameterTable* layout = nullptr;
  Comm* comm = nullptr;
  Duration deadline{};    // of one sum over the tensor ranks
  bool sequence = false;  // tensor ranks share the tokens outside of the products

  [[nodiscard]] bool is_split() const { return layout->placement.tensor > 1; }
  [[nodiscard]] std::size_t place(std::uint32_t layer, BlockParameter parameter) const {
    return layout->blocks.at(layer) + parameter;
  }
};

// A sum over the tensor ranks failed: becomes its Error again where the model returns.
struct SumFailed {
  Error error;
};
// Over the tensor ranks: the contiguous f32 (f64) tensor itself when there is one rank.
at::Tensor over_ranks(const TensorTable& table, const at::Tensor& mine, Reduce how);

// What every part of a pass needs. `samples` key the dropout; empty: no dropout.
struct Pass {
  std::int64_t samples = 0, sequence = 0;
  // Of each sample, what this rank has outside of the products: all of it, or with sequence
  // parallelism an equal part (Korthikanti et al. 2022).
  std::int64_t own_tokens = 0, first_token = 0;
  std::int64_t heads = 0, first_head = 0;  // of this tensor rank
  std::int64_t head_size = 0;
  double dropout = 0;
  std::uint64_t seed = 0;
  const std::vector<std::uint64_t>* ids = nullptr;  // null: no dropout
  [[nodiscard]] bool drops() const { return ids != nullptr && dropout > 0; }
};

// From the tokens of this rank to those of all, [samples * own_tokens, H] to [T, H], and back: the
// sum over the tensor ranks of what each of them has of a product, f32 (f64).
at::Tensor whole(const TensorTable& table, const Pass& pass, const at::Tensor& own);
at::Tensor sum_of_parts(const TensorTable& table, const Pass& pass, const at::Tensor& part);

struct NormTrace {  // of a layer norm; mean and rstd in f32 (f64)
  at::Tensor norm, mean, rstd;
};

struct BlockTrace {  // kept from forward to backward
  at::Tensor input;
  NormTrace norm1, norm2;
  at::Tensor qkv;          // [3, samples, H, s, d]
  at::Tensor probability;  // [samples * H, s, s], before dropout
  at::Tensor attention_mask, dropped;
  at::Tensor context;  // [T, H d]
  at::Tensor out_mask, middle;
  at::Tensor before_gelu, after_gelu, mlp_mask;
};

// gradient += left^T right, now or later.
struct Product {
  at::Tensor gradient, left, right;
  void add() const;
};
// Products for weights that wait (zero-bubble schedules); null: none waits.
using Later = std::vector<Product>*;
void add_product(const Product& product, Later later);
// gradient += column sums of `value`.
void add_columns(const at::Tensor& gradient, const at::Tensor& value);

// Of a site between the products, for this rank's tokens.
at::Tensor hidden_mask(const Pass& pass, std::uint32_t layer, kernels::DropoutSite site,
                       const at::Tensor& like);
// The mask of one site in `like`'s type, [samples, elements] reshaped to `shape`; `first` is the
// logical element where each sample's begins.
at::Tensor dropout_mask(const Pass& pass, std::uint32_t layer, kernels::DropoutSite site,
                        at::IntArrayRef shape, const at::Tensor& like, std::int64_t first = 0);

// What the backward pass needs: everything but the layer's last product. `causal` is [s, s] with 0
// on and below the diagonal and -inf above.
void block_trace(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                 const at::Tensor& causal, const at::Tensor& input, BlockTrace& trace);
// Drops the attention's scores from a trace, and computes them again from its `qkv`.
void forget_scores(BlockTrace& trace);
void complete_scores(std::uint32_t layer, const Pass& pass, const at::Tensor& causal,
                     BlockTrace& trace);
// Fills `trace` if not null.
at::Tensor block_forward(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                         const at::Tensor& causal, const at::Tensor& input, BlockTrace* trace);
// Returns the gradient of the input; those of the parameters are added to the table.
at::Tensor block_backward(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                          const BlockTrace& trace, const at::Tensor& upstream, Later later);

// The layer norm with weight and bias at `place` and place + 1; its backward pass adds their
// gradients.
NormTrace norm_forward(const TensorTable& table, std::size_t place, const at::Tensor& input);
at::Tensor norm_backward(const TensorTable& table, std::size_t place, const at::Tensor& upstream,
                         const at::Tensor& input, const NormTrace& trace);

// bf16 is a type to keep numbers in, not to add in: products, norms and softmax are computed in f32
// and rounded once. (The CPU multiplies bf16 at a hundredth of the speed of f32, and a sum of 4,096
// bf16 numbers loses half of its value.) Other types pass through.
at::Tensor wide(const at::Tensor& tensor);
at::Tensor like(const at::Tensor& tensor, const at::Tensor& other);

}  // namespace stoker::train
