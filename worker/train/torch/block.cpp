// x + dropout(attention(norm1(x))), then + dropout(mlp(norm2(.))): Radford et al. 2019 (GPT-2).
#include "worker/train/torch/block.hpp"

#include "worker/train/torch/dropout_mask.hpp"

namespace stoker::train {
namespace {

// Which dimension of a weight [out, in] the tensor ranks share: with Out each has some outputs of
// the whole input; with In a part of the input gives a part of every output, and these are added.
enum class Side { Out, In };

// y = x W^T + b
at::Tensor linear(const TensorTable& table, const Pass& pass, std::size_t weight,
                  const at::Tensor& x, Side side) {
  const at::Tensor w = table.values[weight].t(), bias = table.values[weight + 1];
  if (side == Side::Out) return table.operators->product(whole(table, pass, x), w, bias);
  if (!table.is_split()) return table.operators->product(x, w, bias);
  const at::Tensor sum = sum_of_parts(table, pass, table.operators->wide_product(x, w));
  return like(sum.add_(wide(bias)), x);
}

// Adds the gradients of weight and bias, returns that of the input.
at::Tensor linear_backward(const TensorTable& table, const Pass& pass, std::size_t weight,
                           const at::Tensor& upstream, const at::Tensor& input, Side side,
                           Later later) {
  const bool out = side == Side::Out;
  const at::Tensor above = out ? upstream : whole(table, pass, upstream);
  add_product(
      {table.operators, table.gradients[weight], above, out ? whole(table, pass, input) : input},
      later);
  table.operators->add_columns(table.gradients[weight + 1], above);
  const at::Tensor& w = table.values[weight];
  if (!out || !table.is_split()) return table.operators->product(above, w);
  return like(sum_of_parts(table, pass, table.operators->wide_product(above, w)), upstream);
}

at::Tensor attention_forward(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                             const at::Tensor& causal, BlockTrace& t) {
  const at::Tensor qkv =
      linear(table, pass, table.place(layer, kQkvWeight), t.norm1.norm, Side::Out);
  t.context = table.operators->attention(layer, pass, causal, qkv, t.attention);
  return linear(table, pass, table.place(layer, kAttentionOutWeight), t.context, Side::In);
}

at::Tensor attention_backward(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                              const BlockTrace& t, const at::Tensor& upstream, Later later) {
  const at::Tensor context = linear_backward(table, pass, table.place(layer, kAttentionOutWeight),
                                             upstream, t.context, Side::In, later);
  const at::Tensor qkv = table.operators->attention_backward(pass, t.attention, context);
  return linear_backward(table, pass, table.place(layer, kQkvWeight), qkv, t.norm1.norm, Side::Out,
                         later);
}

// base + mask * value; the mask may be undefined.
at::Tensor add_dropped(const at::Tensor& base, const at::Tensor& value, const at::Tensor& mask) {
  return mask.defined() ? at::addcmul(base, value, mask) : base + value;
}

}  // namespace

NormTrace norm_forward(const TensorTable& table, std::size_t place, const at::Tensor& input) {
  return table.operators->norm(input, table.values[place], table.values[place + 1]);
}

at::Tensor over_ranks(const TensorTable& table, const at::Tensor& mine, Reduce how) {
  if (!table.is_split()) return mine;
  at::Tensor sum = mine.contiguous();
  const Element element = sum.scalar_type() == at::kDouble ? Element::F64 : Element::F32;
  const Status done = table.comm->all_reduce(
      Axis::Tensor, how, {sum.data_ptr(), static_cast<std::size_t>(sum.numel()), element},
      {"tensor ranks", table.deadline});
  if (!done) throw SumFailed{done.error()};
  return sum;
}

// [samples, ranks, own tokens, H] is what a sample's order wants; ranks come first in a call.
at::Tensor whole(const TensorTable& table, const Pass& pass, const at::Tensor& own) {
  if (!table.sequence) return own;
  const std::int64_t ranks = table.layout->placement.tensor, width = own.size(1);
  const at::Tensor mine = own.contiguous();
  const at::Tensor all = at::empty({ranks, pass.samples, pass.own_tokens, width}, mine.options());
  const Status done = table.comm->all_gather(Axis::Tensor, mine.data_ptr(), mine.nbytes(),
                                             all.data_ptr(), {"tokens", table.deadline});
  if (!done) throw SumFailed{done.error()};
  return all.permute({1, 0, 2, 3}).reshape({pass.samples * pass.sequence, width});
}

at::Tensor sum_of_parts(const TensorTable& table, const Pass& pass, const at::Tensor& part) {
  if (!table.sequence) return over_ranks(table, part, Reduce::Sum);
  const std::int64_t ranks = table.layout->placement.tensor, width = part.size(1);
  const at::Tensor all =
      part.view({pass.samples, ranks, pass.own_tokens, width}).permute({1, 0, 2, 3}).contiguous();
  const at::Tensor own = at::empty({pass.samples * pass.own_tokens, width}, part.options());
  const Element element = part.scalar_type() == at::kDouble ? Element::F64 : Element::F32;
  const Status done = table.comm->reduce_scatter(
      Axis::Tensor, {all.data_ptr(), static_cast<std::size_t>(all.numel()), element},
      own.data_ptr(), {"tensor ranks", table.deadline});
  if (!done) throw SumFailed{done.error()};
  return own;
}

at::Tensor norm_backward(const TensorTable& table, std::size_t place, const at::Tensor& upstream,
                         const at::Tensor& input, const NormTrace& t, const at::Tensor& beside) {
  return table.operators->norm_backward(
      upstream, input, t, table.values[place], table.values[place + 1],
      {table.gradients[place], table.gradients[place + 1]}, beside);
}

void block_trace(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                 const at::Tensor& causal, const at::Tensor& input, BlockTrace& t) {
  t.input = input;
  t.norm1 = norm_forward(table, table.place(layer, kNorm1Weight), input);
  const at::Tensor attention = attention_forward(table, layer, pass, causal, t);
  const std::size_t norm2 = table.place(layer, kNorm2Weight);
  if (pass.drops()) {
    t.out_mask = hidden_mask(pass, layer, kernels::DropoutSite::AttentionOut, input);
    t.middle = add_dropped(input, attention, t.out_mask);
    t.norm2 = norm_forward(table, norm2, t.middle);
  } else {
    t.norm2 = table.operators->sum_norm(input, attention, table.values[norm2],
                                        table.values[norm2 + 1], t.middle);
  }
  t.before_gelu = linear(table, pass, table.place(layer, kMlpInWeight), t.norm2.norm, Side::Out);
  t.after_gelu = at::gelu(t.before_gelu, "tanh");
  if (pass.drops()) t.mlp_mask = hidden_mask(pass, layer, kernels::DropoutSite::MlpOut, input);
}

at::Tensor block_forward(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                         const at::Tensor& causal, const at::Tensor& input, BlockTrace* trace) {
  BlockTrace local;
  BlockTrace& t = trace != nullptr ? *trace : local;
  block_trace(table, layer, pass, causal, input, t);
  const at::Tensor mlp =
      linear(table, pass, table.place(layer, kMlpOutWeight), t.after_gelu, Side::In);
  return add_dropped(t.middle, mlp, t.mlp_mask);
}

at::Tensor block_backward(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                          const BlockTrace& t, const at::Tensor& upstream, Later later) {
  const auto masked = [](const at::Tensor& gradient, const at::Tensor& mask) {
    return mask.defined() ? gradient * mask : gradient;
  };
  const at::Tensor after_gelu =
      linear_backward(table, pass, table.place(layer, kMlpOutWeight), masked(upstream, t.mlp_mask),
                      t.after_gelu, Side::In, later);
  const at::Tensor before_gelu = at::gelu_backward(after_gelu, t.before_gelu, "tanh");
  const at::Tensor norm2 = linear_backward(table, pass, table.place(layer, kMlpInWeight),
                                           before_gelu, t.norm2.norm, Side::Out, later);
  const at::Tensor middle =
      norm_backward(table, table.place(layer, kNorm2Weight), norm2, t.middle, t.norm2, upstream);
  const at::Tensor norm1 =
      attention_backward(table, layer, pass, t, masked(middle, t.out_mask), later);
  return norm_backward(table, table.place(layer, kNorm1Weight), norm1, t.input, t.norm1, middle);
}

}  // namespace stoker::train
