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
  return like(at::addmm(wide(table.values[weight + 1]), wide(x), wide(table.values[weight]).t()),
              x);
}

// Puts the gradients of weight and bias, returns that of the input.
at::Tensor linear_backward(const TensorTable& table, std::size_t weight, const at::Tensor& upstream,
                           const at::Tensor& input, Accumulate how) {
  put_product(table.gradients[weight], upstream, input, how);
  put_columns(table.gradients[weight + 1], upstream, how);
  return like(at::mm(wide(upstream), wide(table.values[weight])), upstream);
}

at::Tensor attention_forward(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                             const at::Tensor& causal, const at::Tensor& norm, BlockTrace& t) {
  const std::int64_t B = pass.samples, H = pass.heads, s = pass.sequence, h = norm.size(1);
  t.qkv = linear(table, place_of(layer, kQkvWeight), norm)
              .view({B, s, H, 3, h / H})
              .permute({3, 0, 2, 1, 4})
              .contiguous();
  const at::Tensor qkv = wide(t.qkv);
  const auto part = [&](int i) { return qkv[i].view({B * H, s, h / H}); };
  const at::Tensor scores = at::baddbmm(wide(causal).unsqueeze(0), part(0), part(1).transpose(1, 2),
                                        1, attention_scale(qkv));
  t.probability = like(at::softmax(scores, -1), norm);
  t.dropped = t.probability;
  if (pass.drops()) {
    t.attention_mask =
        dropout_mask(pass, layer, kernels::DropoutSite::Attention, {B * H, s, s}, t.probability);
    t.dropped = t.probability * t.attention_mask;
  }
  t.context = like(at::bmm(wide(t.dropped), part(2)), norm)
                  .view({B, H, s, h / H})
                  .permute({0, 2, 1, 3})
                  .reshape({B * s, h});
  return linear(table, place_of(layer, kAttentionOutWeight), t.context);
}

at::Tensor attention_backward(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                              const BlockTrace& t, const at::Tensor& upstream, Accumulate how) {
  const std::int64_t B = pass.samples, H = pass.heads, s = pass.sequence, h = upstream.size(1);
  const at::Tensor context =
      wide(linear_backward(table, place_of(layer, kAttentionOutWeight), upstream, t.context, how))
          .view({B, s, H, h / H})
          .permute({0, 2, 1, 3})
          .reshape({B * H, s, h / H});
  const auto part = [&](const at::Tensor& all, int i) { return all[i].view({B * H, s, h / H}); };
  const at::Tensor saved = wide(t.qkv), shares = wide(t.probability);
  at::Tensor probability = at::bmm(context, part(saved, 2).transpose(1, 2));
  if (pass.drops()) probability.mul_(t.attention_mask);
  const at::Tensor scores =
      at::_softmax_backward_data(probability, shares, -1, shares.scalar_type());
  // Zeros: for small shapes LibTorch 1.13 multiplies what is there by beta = 0, and 0 x NaN is NaN.
  at::Tensor qkv = at::zeros_like(saved);
  at::Tensor q = part(qkv, 0), k = part(qkv, 1), v = part(qkv, 2);
  const double scale = attention_scale(qkv);
  at::baddbmm_out(q, q, scores, part(saved, 1), 0, scale);
  at::baddbmm_out(k, k, scores.transpose(1, 2), part(saved, 0), 0, scale);
  at::bmm_out(v, wide(t.dropped).transpose(1, 2), context);
  const at::Tensor flat = like(qkv, t.qkv).permute({1, 3, 2, 0, 4}).reshape({B * s, 3 * h});
  return linear_backward(table, place_of(layer, kQkvWeight), flat, t.norm1.norm, how);
}

// base + mask * value; the mask may be undefined.
at::Tensor add_dropped(const at::Tensor& base, const at::Tensor& value, const at::Tensor& mask) {
  return mask.defined() ? at::addcmul(base, value, mask) : base + value;
}

}  // namespace

at::Tensor wide(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 ? tensor.to(at::kFloat) : tensor;
}

at::Tensor like(const at::Tensor& tensor, const at::Tensor& other) {
  return tensor.to(other.scalar_type());
}

NormTrace norm_forward(const TensorTable& table, std::size_t place, const at::Tensor& input) {
  NormTrace t;
  std::tie(t.norm, t.mean, t.rstd) =
      at::native_layer_norm(wide(input), {input.size(1)}, wide(table.values[place]),
                            wide(table.values[place + 1]), kNormEps);
  t.norm = like(t.norm, input);
  return t;
}

void put(const at::Tensor& gradient, const at::Tensor& value, Accumulate how) {
  if (how == Accumulate::Replace)
    gradient.copy_(value);
  else
    gradient.add_(value);
}

void put_product(const at::Tensor& gradient, const at::Tensor& left, const at::Tensor& right,
                 Accumulate how) {
  at::Tensor out = gradient;
  at::addmm_out(out, out, wide(left).t(), wide(right), how == Accumulate::Replace ? 0 : 1, 1);
}

void put_columns(const at::Tensor& gradient, const at::Tensor& value, Accumulate how) {
  put(gradient, at::sum(value, {0}, false, gradient.scalar_type()), how);
}

at::Tensor norm_backward(const TensorTable& table, std::size_t place, const at::Tensor& upstream,
                         const at::Tensor& input, const NormTrace& t, Accumulate how) {
  auto [gradient, weight, bias] = at::native_layer_norm_backward(
      wide(upstream), wide(input), {input.size(1)}, t.mean, t.rstd, wide(table.values[place]),
      wide(table.values[place + 1]), {true, true, true});
  put(table.gradients[place], weight, how);
  put(table.gradients[place + 1], bias, how);
  return like(gradient, input);
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
  BlockTrace local;
  BlockTrace& t = trace != nullptr ? *trace : local;
  t.input = input;
  t.norm1 = norm_forward(table, place_of(layer, kNorm1Weight), input);
  const at::Tensor attention = attention_forward(table, layer, pass, causal, t.norm1.norm, t);
  if (pass.drops())
    t.out_mask =
        dropout_mask(pass, layer, kernels::DropoutSite::AttentionOut, input.sizes(), input);
  t.middle = add_dropped(input, attention, t.out_mask);
  t.norm2 = norm_forward(table, place_of(layer, kNorm2Weight), t.middle);
  t.before_gelu = linear(table, place_of(layer, kMlpInWeight), t.norm2.norm);
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
      linear_backward(table, place_of(layer, kMlpInWeight), before_gelu, t.norm2.norm, how);
  at::Tensor middle =
      norm_backward(table, place_of(layer, kNorm2Weight), norm2, t.middle, t.norm2, how);
  middle.add_(upstream);
  const at::Tensor norm1 =
      attention_backward(table, layer, pass, t, masked(middle, t.out_mask), how);
  at::Tensor input =
      norm_backward(table, place_of(layer, kNorm1Weight), norm1, t.input, t.norm1, how);
  return input.add_(middle);
}

}  // namespace stoker::train
