// One transformer block as two functions of a parameter table. Activations are [tokens, hidden]
// with tokens = samples x sequence; T stands for them, H for this rank's heads, s for sequence, d
// for the size of a head. Tensor parallel: whole heads and columns of the MLP are split,
// activations between blocks are the same bits on all tensor ranks, or with sequence parallelism
// their tokens are split.
#pragma once

#include <ATen/ATen.h>

#include "worker/train/comm/comm.hpp"
#include "worker/train/model/model.hpp"
#include "worker/train/model/parameter_table.hpp"
#include "worker/train/torch/operators.hpp"

namespace stoker::train {

// Views of the flat buffers, one entry a parameter of the table, and the ranks that hold the rest
// of split parameters.
struct TensorTable {
  std::vector<at::Tensor> values;     // in the model's type
  std::vector<at::Tensor> gradients;  // f32 (f64)
  const ParameterTable* layout = nullptr;
  Comm* comm = nullptr;
  const Operators* operators = nullptr;
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

// From the tokens of this rank to those of all, [samples * own_tokens, H] to [T, H], and back: the
// sum over the tensor ranks of what each of them has of a product, f32 (f64).
at::Tensor whole(const TensorTable& table, const Pass& pass, const at::Tensor& own);
at::Tensor sum_of_parts(const TensorTable& table, const Pass& pass, const at::Tensor& part);

struct BlockTrace {  // kept from forward to backward
  at::Tensor input;
  NormTrace norm1, norm2;
  AttentionTrace attention;
  at::Tensor context;  // [T, H d]
  at::Tensor out_mask, middle;
  at::Tensor before_gelu, after_gelu, mlp_mask;
};

// What the backward pass needs: everything but the layer's last product. `causal` is [s, s] with 0
// on and below the diagonal and -inf above.
void block_trace(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                 const at::Tensor& causal, const at::Tensor& input, BlockTrace& trace);
// Fills `trace` if not null.
at::Tensor block_forward(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                         const at::Tensor& causal, const at::Tensor& input, BlockTrace* trace);
// Returns the gradient of the input; those of the parameters are added to the table.
at::Tensor block_backward(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                          const BlockTrace& trace, const at::Tensor& upstream, Later later);

// The layer norm with weight and bias at `place` and place + 1; its backward pass adds their
// gradients, and `beside` to that of the input.
NormTrace norm_forward(const TensorTable& table, std::size_t place, const at::Tensor& input);
at::Tensor norm_backward(const TensorTable& table, std::size_t place, const at::Tensor& upstream,
                         const at::Tensor& input, const NormTrace& trace,
                         const at::Tensor& beside = {});

}  // namespace stoker::train
