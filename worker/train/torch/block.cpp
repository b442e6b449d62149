// x + dropout(attention(norm1(x))), then + dropout(mlp(norm2(.))): Radford et al. 2019 (GPT-2).
#include "worker/train/torch/block.hpp"

#include <ATen/Parallel.h>
#include <algorithm>
#include <cmath>
#include <vector>

namespace stoker::train {
namespace {

// Which dimension of a weight [out, in] the tensor ranks share: with Out each has some outputs of
// the whole input; with In a part of the input gives a part of every output, and these are added.
enum class Side { Out, In };

double attention_scale(const at::Tensor& q) {
  return 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
}

// y = x W^T + b
at::Tensor linear(const TensorTable& table, const Pass& pass, std::size_t weight,
                  const at::Tensor& x, Side side) {
  const at::Tensor w = wide(table.values[weight]).t(), bias = wide(table.values[weight + 1]);
  if (side == Side::Out) return like(at::addmm(bias, wide(whole(table, pass, x)), w), x);
  if (!table.is_split()) return like(at::addmm(bias, wide(x), w), x);
  return like(sum_of_parts(table, pass, at::mm(wide(x), w)).add_(bias), x);
}

// Adds the gradients of weight and bias, returns that of the input.
at::Tensor linear_backward(const TensorTable& table, const Pass& pass, std::size_t weight,
                           const at::Tensor& upstream, const at::Tensor& input, Side side,
                           Later later) {
  const bool out = side == Side::Out;
  const at::Tensor above = out ? upstream : whole(table, pass, upstream);
  add_product({table.gradients[weight], above, out ? whole(table, pass, input) : input}, later);
  add_columns(table.gradients[weight + 1], above);
  const at::Tensor gradient = at::mm(wide(above), wide(table.values[weight]));
  return like(out ? sum_of_parts(table, pass, gradient) : gradient, upstream);
}

// The scores of wide q and k, softened: probability, its dropout and what is left.
void attend(std::uint32_t layer, const Pass& pass, const at::Tensor& causal, const at::Tensor& qkv,
            BlockTrace& t) {
  const std::int64_t B = pass.samples, H = pass.heads, s = pass.sequence, d = pass.head_size;
  const auto part = [&](int i) { return qkv[i].view({B * H, s, d}); };
  const at::Tensor scores = at::baddbmm(wide(causal).unsqueeze(0), part(0), part(1).transpose(1, 2),
                                        1, attention_scale(qkv));
  t.probability = like(at::softmax(scores, -1), t.qkv);
  t.dropped = t.probability;
  if (!pass.drops()) return;
  t.attention_mask = dropout_mask(pass, layer, kernels::DropoutSite::Attention, {B * H, s, s},
                                  t.probability, pass.first_head * s * s);
  t.dropped = t.probability * t.attention_mask;
}

at::Tensor attention_forward(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                             const at::Tensor& causal, const at::Tensor& norm, BlockTrace& t) {
  const std::int64_t B = pass.samples, H = pass.heads, s = pass.sequence, d = pass.head_size;
  t.qkv = linear(table, pass, table.place(layer, kQkvWeight), norm, Side::Out)
              .view({B, s, H, 3, d})
              .permute({3, 0, 2, 1, 4})
              .contiguous();
  const at::Tensor qkv = wide(t.qkv);
  attend(layer, pass, causal, qkv, t);
  t.context = like(at::bmm(wide(t.dropped), qkv[2].view({B * H, s, d})), norm)
                  .view({B, H, s, d})
                  .permute({0, 2, 1, 3})
                  .reshape({B * s, H * d});
  return linear(table, pass, table.place(layer, kAttentionOutWeight), t.context, Side::In);
}

at::Tensor attention_backward(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                              const BlockTrace& t, const at::Tensor& upstream, Later later) {
  const std::int64_t B = pass.samples, H = pass.heads, s = pass.sequence, d = pass.head_size;
  const at::Tensor context =
      wide(linear_backward(table, pass, table.place(layer, kAttentionOutWeight), upstream,
                           t.context, Side::In, later))
          .view({B, s, H, d})
          .permute({0, 2, 1, 3})
          .reshape({B * H, s, d});
  const auto part = [&](const at::Tensor& all, int i) { return all[i].view({B * H, s, d}); };
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
  const at::Tensor flat = like(qkv, t.qkv).permute({1, 3, 2, 0, 4}).reshape({B * s, 3 * H * d});
  return linear_backward(table, pass, table.place(layer, kQkvWeight), flat, t.norm1.norm, Side::Out,
                         later);
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

void Product::add() const {
  at::Tensor out = gradient;
  at::addmm_out(out, out, wide(left).t(), wide(right));
}

void add_product(const Product& product, Later later) {
  if (later != nullptr)
    later->push_back(product);
  else
    product.add();
}

void add_columns(const at::Tensor& gradient, const at::Tensor& value) {
  gradient.add_(at::sum(value, {0}, false, gradient.scalar_type()));
}

at::Tensor norm_backward(const TensorTable& table, std::size_t place, const at::Tensor& upstream,
                         const at::Tensor& input, const NormTrace& t) {
  auto [gradient, weight, bias] = at::native_layer_norm_backward(
      wide(upstream), wide(input), {input.size(1)}, t.mean, t.rstd, wide(table.values[place]),
      wide(table.values[place + 1]), {true, true, true});
  table.gradients[place].add_(weight);
  table.gradients[place + 1].add_(bias);
  return like(gradient, input);
}

at::Tensor dropout_mask(const Pass& pass, std::uint32_t layer, kernels::DropoutSite site,
                        at::IntArrayRef shape, const at::Tensor& like, std::int64_t first) {
  at::Tensor mask = at::empty(shape, like.options());
  const std::int64_t each = mask.numel() / pass.samples;
  // Whole chunks of samples, so that every thread count draws the same bits.
  constexpr std::int64_t kChunk = 1 << 14;
  // The generator begins at multiples of four; what comes before is drawn and left out.
  const std::int64_t before = first % 4;
  const std::int64_t chunks = (each + kChunk - 1) / kChunk;
  const auto fill = [&]<class T>(T* out) {
    at::parallel_for(0, pass.samples * chunks, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<T> drawn(before != 0 ? static_cast<std::size_t>(kChunk + before) : 0);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t at = i % chunks * kChunk, count = std::min(kChunk, each - at);
        const auto sample = static_cast<std::size_t>(i / chunks);
        T* to = out + i / chunks * each + at;
        kernels::dropout_mask({pass.seed, (*pass.ids)[sample], layer, site}, pass.dropout,
                              static_cast<std::uint64_t>(first + at - before),
                              static_cast<std::size_t>(count + before),
                              before != 0 ? drawn.data() : to);
        if (before != 0) std::copy_n(drawn.data() + before, count, to);
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

at::Tensor hidden_mask(const Pass& pass, std::uint32_t layer, kernels::DropoutSite site,
                       const at::Tensor& like) {
  return dropout_mask(pass, layer, site, like.sizes(), like, pass.first_token * like.size(1));
}

void forget_scores(BlockTrace& t) {
  t.probability = t.attention_mask = t.dropped = at::Tensor();
}

void complete_scores(std::uint32_t layer, const Pass& pass, const at::Tensor& causal,
                     BlockTrace& t) {
  attend(layer, pass, causal, wide(t.qkv), t);
}

void block_trace(const TensorTable& table, std::uint32_t layer, const Pass& pass,
                 const at::Tensor& causal, const at::Tensor& input, BlockTrace& t) {
  t.input = input;
  t.norm1 = norm_forward(table, table.place(layer, kNorm1Weight), input);
  const at::Tensor attention = attention_forward(table, layer, pass, causal, t.norm1.norm, t);
  if (pass.drops())
    t.out_mask = hidden_mask(pass, layer, kernels::DropoutSite::AttentionOut, input);
  t.middle = add_dropped(input, attention, t.out_mask);
  t.norm2 = norm_forward(table, table.place(layer, kNorm2Weight), t.middle);
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
  at::Tensor middle =
      norm_backward(table, table.place(layer, kNorm2Weight), norm2, t.middle, t.norm2);
  middle.add_(upstream);
  const at::Tensor norm1 =
      attention_backward(table, layer, pass, t, masked(middle, t.out_mask), later);
  at::Tensor input =
      norm_backward(table, table.place(layer, kNorm1Weight), norm1, t.input, t.norm1);
  return input.add_(middle);
}

}  // namespace stoker::train
