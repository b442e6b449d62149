// x + dropout(attention(norm1(x))), then + dropout(mlp(norm2(.))): Radford et al. 2019 (GPT-2).
#include "worker/train/torch/block.hpp"

#include <ATen/Parallel.h>
#include <algorithm>
#include <cmath>

namespace stoker::train {
namespace {

std::size_t place_of(std::uint32_t layer, std::size_t parameter) {
  return kFirstBlock + layer * kPerBlock + parameter;
}

double attention_scale(const at::Tensor& q) {
  return 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
}

// y = x W^T + b
at::Tensor linear(const TensorTable& table, std::size_t weight, const at::Tensor& x) {
  return at::addmm(table.values[weight + 1], x, table.values[weight].t());
}

// Puts the gradients of weight and bias, returns that of the input.
at::Tensor linear_backward(const TensorTable& table, std::size_t weight, const at::Tensor& upstream,
                           const at::Tensor& input, Accumulate how) {
  put_product(table.gradients[weight], upstream, input, how);
  put_columns(table.gradients[weight + 1], upstream, how);
  return at::mm(upstream, table.values[weight]);
}

at::Tensor attention_forward(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                             const at::Tensor& causal, const at::Tensor& norm, BlockTrace& t) {
  const std::int64_t B = pass.samples, H = pass.heads, s = pass.sequence, h = norm.size(1);
  t.qkv = linear(table, place_of(layer, kQkvWeight), norm)
              .view({B, s, H, 3, h / H})
              .permute({3, 0, 2, 1, 4})
              .contiguous();
  const auto part = [&](int i) { return t.qkv[i].view({B * H, s, h / H}); };
  const at::Tensor scores =
      at::baddbmm(causal.unsqueeze(0), part(0), part(1).transpose(1, 2), 1, attention_scale(t.qkv));
  t.probability = at::softmax(scores, -1);
  t.dropped = t.probability;
  if (pass.drops()) {
    t.attention_mask =
        dropout_mask(pass, layer, kernels::DropoutSite::Attention, {B * H, s, s}, t.probability);
    t.dropped = t.probability * t.attention_mask;
  }
  t.context =
      at::bmm(t.dropped, part(2)).view({B, H, s, h / H}).permute({0, 2, 1, 3}).reshape({B * s, h});
  return linear(table, place_of(layer, kAttentionOutWeight), t.context);
}

at::Tensor attention_backward(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                              const BlockTrace& t, const at::Tensor& upstream, Accumulate how) {
  const std::int64_t B = pass.samples, H = pass.heads, s = pass.sequence, h = upstream.size(1);
  const at::Tensor context =
      linear_backward(table, place_of(layer, kAttentionOutWeight), upstream, t.context, how)
          .view({B, s, H, h / H})
          .permute({0, 2, 1, 3})
          .reshape({B * H, s, h / H});
  const auto part = [&](const at::Tensor& all, int i) { return all[i].view({B * H, s, h / H}); };
  at::Tensor probability = at::bmm(context, part(t.qkv, 2).transpose(1, 2));
  if (pass.drops()) probability.mul_(t.attention_mask);
  const at::Tensor scores =
      at::_softmax_backward_data(probability, t.probability, -1, t.probability.scalar_type());
  at::Tensor qkv = at::empty_like(t.qkv);
  at::Tensor q = part(qkv, 0), k = part(qkv, 1), v = part(qkv, 2);
  const double scale = attention_scale(qkv);
  at::baddbmm_out(q, q, scores, part(t.qkv, 1), 0, scale);
  at::baddbmm_out(k, k, scores.transpose(1, 2), part(t.qkv, 0), 0, scale);
  at::bmm_out(v, t.dropped.transpose(1, 2), context);
  const at::Tensor flat = qkv.permute({1, 3, 2, 0, 4}).reshape({B * s, 3 * h});
  return linear_backward(table, place_of(layer, kQkvWeight), flat, t.norm1, how);
}

// base + mask * value; the mask may be undefined.
at::Tensor add_dropped(const at::Tensor& base, const at::Tensor& value, const at::Tensor& mask) {
  return mask.defined() ? at::addcmul(base, value, mask) : base + value;
}

}  // namespace

void put(const at::Tensor& gradient, const at::Tensor& value, Accumulate how) {
  if (how == Accumulate::Replace)
    gradient.copy_(value);
  else
    gradient.add_(value);
}

void put_product(const at::Tensor& gradient, const at::Tensor& left, const at::Tensor& right,
                 Accumulate how) {
  if (left.scalar_type() != gradient.scalar_type()) {
    put(gradient, at::mm(left.t(), right), how);
    return;
  }
  at::Tensor out = gradient;
  at::addmm_out(out, out, left.t(), right, how == Accumulate::Replace ? 0 : 1, 1);
}

void put_columns(const at::Tensor& gradient, const at::Tensor& value, Accumulate how) {
  put(gradient, at::sum(value, {0}, false, gradient.scalar_type()), how);
}

at::Tensor norm_backward(const TensorTable& table, std::size_t place, const at::Tensor& upstream,
                         const at::Tensor& input, const at::Tensor& mean, const at::Tensor& rstd,
                         Accumulate how) {
  auto [gradient, weight, bias] = at::native_layer_norm_backward(
      upstream, input, {input.size(1)}, mean, rstd, table.values[place], table.values[place + 1],
      {true, true, true});
  put(table.gradients[place], weight, how);
  put(table.gradients[place + 1], bias, how);
  return gradient;
}

at::Tensor dropout_mask(const Pass& pass, std::uint32_t layer, kernels::DropoutSite site,
                        at::IntArrayRef shape, const at::Tensor& like) {
  at::Tensor mask = at::empty(shape, like.options());
  const std::int64_t each = mask.numel() / pass.samples;
  // Whole chunks of samples, so that every thread count draws the same bits.
  constexpr std::int64_t kChunk = 1 << 14;
  const std::int64_t chunks = (each + kChunk - 1) / kChunk;
  const auto fill = [&](auto* out) {
    at::parallel_for(0, pass.samples * chunks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t first = i % chunks * kChunk, count = std::min(kChunk, each - first);
        const auto sample = static_cast<std::size_t>(i / chunks);
        kernels::dropout_mask({pass.seed, (*pass.ids)[sample], layer, site}, pass.dropout,
                              static_cast<std::uint64_t>(first), static_cast<std::size_t>(count),
                              out + i / chunks * each + first);
      }
    });
  };
  if (mask.scalar_type() == at::kDouble)
    fill(mask.data_ptr<double>());
  else if (mask.scalar_type() == at::kFloat)
    fill(mask.data_ptr<float>());
  else
    fill(static_cast<kernels::Bf16*>(mask.data_ptr()));
  return mask;
}

at::Tensor block_forward(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                         const at::Tensor& causal, const at::Tensor& input, BlockTrace* trace) {
  const auto value = [&](std::size_t p) { return table.values[place_of(layer, p)]; };
  const std::int64_t h = input.size(1);
  BlockTrace local;
  BlockTrace& t = trace != nullptr ? *trace : local;
  t.input = input;
  std::tie(t.norm1, t.mean1, t.rstd1) =
      at::native_layer_norm(input, {h}, value(kNorm1Weight), value(kNorm1Bias), kNormEps);
  const at::Tensor attention = attention_forward(table, layer, pass, causal, t.norm1, t);
  if (pass.drops())
    t.out_mask =
        dropout_mask(pass, layer, kernels::DropoutSite::AttentionOut, input.sizes(), input);
  t.middle = add_dropped(input, attention, t.out_mask);
  std::tie(t.norm2, t.mean2, t.rstd2) =
      at::native_layer_norm(t.middle, {h}, value(kNorm2Weight), value(kNorm2Bias), kNormEps);
  t.before_gelu = linear(table, place_of(layer, kMlpInWeight), t.norm2);
  t.after_gelu = at::gelu(t.before_gelu, "tanh");
  const at::Tensor mlp = linear(table, place_of(layer, kMlpOutWeight), t.after_gelu);
  if (pass.drops())
    t.mlp_mask = dropout_mask(pass, layer, kernels::DropoutSite::MlpOut, input.sizes(), input);
  return add_dropped(t.middle, mlp, t.mlp_mask);
}

at::Tensor block_backward(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                          const BlockTrace& t, const at::Tensor& upstream, Accumulate how) {
  const auto masked = [](const at::Tensor& gradient, const at::Tensor& mask) {
    return mask.defined() ? gradient * mask : gradient;
  };
  const at::Tensor after_gelu = linear_backward(table, place_of(layer, kMlpOutWeight),
                                                masked(upstream, t.mlp_mask), t.after_gelu, how);
  const at::Tensor before_gelu = at::gelu_backward(after_gelu, t.before_gelu, "tanh");
  const at::Tensor norm2 =
      linear_backward(table, place_of(layer, kMlpInWeight), before_gelu, t.norm2, how);
  at::Tensor middle =
      norm_backward(table, place_of(layer, kNorm2Weight), norm2, t.middle, t.mean2, t.rstd2, how);
  middle.add_(upstream);
  const at::Tensor norm1 =
      attention_backward(table, layer, pass, t, masked(middle, t.out_mask), how);
  at::Tensor input =
      norm_backward(table, place_of(layer, kNorm1Weight), norm1, t.input, t.mean1, t.rstd1, how);
  return input.add_(middle);
}

}  // namespace stoker::train
