#include "worker/train/torch/operators.hpp"

#include <cmath>

#include "kernels/embedding_gradient.hpp"
#include "worker/train/torch/dropout_mask.hpp"

namespace stoker::train {
namespace {

double attention_scale(const at::Tensor& q) {
  return 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
}

// One of queries, keys and values [3, samples, H, s, d] as [samples x H, s, d].
at::Tensor part(const at::Tensor& qkv, const Pass& pass, int which) {
  return qkv[which].view({pass.samples * pass.heads, pass.sequence, pass.head_size});
}

// The scores of wide q and k, softened: probability, its dropout and what is left.
void attend(std::uint32_t layer, const Pass& pass, const at::Tensor& causal, const at::Tensor& qkv,
            AttentionTrace& t) {
  const std::int64_t s = pass.sequence;
  const at::Tensor scores =
      at::baddbmm(wide(causal).unsqueeze(0), part(qkv, pass, 0), part(qkv, pass, 1).transpose(1, 2),
                  1, attention_scale(qkv));
  t.probability = like(at::softmax(scores, -1), t.qkv);
  t.dropped = t.probability;
  if (!pass.drops()) return;
  t.mask = dropout_mask(pass, layer, kernels::DropoutSite::Attention,
                        {pass.samples * pass.heads, s, s}, t.probability, pass.first_head * s * s);
  t.dropped = t.probability * t.mask;
}

}  // namespace

at::Tensor wide(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 ? tensor.to(at::kFloat) : tensor;
}

at::Tensor like(const at::Tensor& tensor, const at::Tensor& other) {
  return tensor.to(other.scalar_type());
}

void Product::add() const {
  operators->add_product(gradient, left, right, factor);
}

void add_product(const Product& product, Later later) {
  if (later != nullptr)
    later->push_back(product);
  else
    product.add();
}

at::Tensor Operators::product(const at::Tensor& a, const at::Tensor& b,
                              const at::Tensor& bias) const {
  if (!bias.defined()) return like(at::mm(wide(a), wide(b)), a);
  return like(at::addmm(wide(bias), wide(a), wide(b)), a);
}

at::Tensor Operators::wide_product(const at::Tensor& a, const at::Tensor& b) const {
  return at::mm(wide(a), wide(b));
}

void Operators::add_product(const at::Tensor& gradient, const at::Tensor& left,
                            const at::Tensor& right, double factor) const {
  at::Tensor out = gradient;
  at::addmm_out(out, out, wide(left).t(), wide(right), 1, factor);
}

void Operators::add_columns(const at::Tensor& gradient, const at::Tensor& value) const {
  gradient.add_(at::sum(value, {0}, false, gradient.scalar_type()));
}

NormTrace Operators::norm(const at::Tensor& input, const at::Tensor& weight,
                          const at::Tensor& bias) const {
  NormTrace t;
  std::tie(t.norm, t.mean, t.rstd) =
      at::native_layer_norm(wide(input), {input.size(1)}, wide(weight), wide(bias), kNormEps);
  t.norm = like(t.norm, input);
  return t;
}

at::Tensor Operators::norm_backward(const at::Tensor& upstream, const at::Tensor& input,
                                    const NormTrace& t, const at::Tensor& weight,
                                    const at::Tensor& bias, const NormGradients& gradients,
                                    const at::Tensor& beside) const {
  const auto [gradient, weights, biases] =
      at::native_layer_norm_backward(wide(upstream), wide(input), {input.size(1)}, t.mean, t.rstd,
                                     wide(weight), wide(bias), {true, true, true});
  gradients.weight.add_(weights);
  gradients.bias.add_(biases);
  at::Tensor sum = like(gradient, input);
  return beside.defined() ? sum.add_(beside) : sum;
}

NormTrace Operators::sum_norm(const at::Tensor& residual, const at::Tensor& value,
                              const at::Tensor& weight, const at::Tensor& bias,
                              at::Tensor& sum) const {
  sum = residual + value;
  return norm(sum, weight, bias);
}

at::Tensor Operators::attention(std::uint32_t layer, const Pass& pass, const at::Tensor& causal,
                                const at::Tensor& product, AttentionTrace& t) const {
  const std::int64_t B = pass.samples, H = pass.heads, s = pass.sequence, d = pass.head_size;
  t.qkv = product.view({B, s, H, 3, d}).permute({3, 0, 2, 1, 4}).contiguous();
  const at::Tensor qkv = wide(t.qkv);
  attend(layer, pass, causal, qkv, t);
  return like(at::bmm(wide(t.dropped), part(qkv, pass, 2)), product)
      .view({B, H, s, d})
      .permute({0, 2, 1, 3})
      .reshape({B * s, H * d});
}

at::Tensor Operators::attention_backward(const Pass& pass, const AttentionTrace& t,
                                         const at::Tensor& upstream) const {
  const std::int64_t B = pass.samples, H = pass.heads, s = pass.sequence, d = pass.head_size;
  const at::Tensor context =
      wide(upstream).view({B, s, H, d}).permute({0, 2, 1, 3}).reshape({B * H, s, d});
  const at::Tensor saved = wide(t.qkv), shares = wide(t.probability);
  at::Tensor probability = at::bmm(context, part(saved, pass, 2).transpose(1, 2));
  if (pass.drops()) probability.mul_(t.mask);
  const at::Tensor scores =
      at::_softmax_backward_data(probability, shares, -1, shares.scalar_type());
  // Zeros: for small shapes LibTorch 1.13 multiplies what is there by beta = 0, and 0 x NaN is NaN.
  at::Tensor qkv = at::zeros_like(saved);
  at::Tensor q = part(qkv, pass, 0), k = part(qkv, pass, 1), v = part(qkv, pass, 2);
  const double scale = attention_scale(qkv);
  at::baddbmm_out(q, q, scores, part(saved, pass, 1), 0, scale);
  at::baddbmm_out(k, k, scores.transpose(1, 2), part(saved, pass, 0), 0, scale);
  at::bmm_out(v, wide(t.dropped).transpose(1, 2), context);
  return like(qkv, t.qkv).permute({1, 3, 2, 0, 4}).reshape({B * s, 3 * H * d});
}

void Operators::forget(AttentionTrace& t) const {
  t.probability = t.mask = t.dropped = at::Tensor();
}

void Operators::complete(std::uint32_t layer, const Pass& pass, const at::Tensor& causal,
                         AttentionTrace& t) const {
  attend(layer, pass, causal, wide(t.qkv), t);
}

Loss Operators::loss(const at::Tensor& norm, const at::Tensor& word,
                     const at::Tensor& labels) const {
  Loss loss{at::log_softmax(wide_product(norm, word.t()), 1), {}};
  loss.mean = -loss.kept.gather(1, labels.unsqueeze(1)).mean(at::kDouble);
  return loss;
}

at::Tensor Operators::loss_backward(const Loss& loss, const at::Tensor& norm,
                                    const at::Tensor& word, const at::Tensor& labels, double each,
                                    const at::Tensor& word_gradient, Later later) const {
  at::Tensor logits = loss.kept;
  logits.exp_();
  const at::Tensor target = labels.unsqueeze(1);
  logits.scatter_(1, target, logits.gather(1, target).sub_(1));
  logits.mul_(each);
  stoker::train::add_product({this, word_gradient, logits, norm}, later);
  return like(at::mm(logits, wide(word)), norm);
}

std::unique_ptr<Recorded> Operators::record(Device&, const std::function<void()>&) const {
  return nullptr;
}

void Operators::add_rows(const at::Tensor& tokens, const at::Tensor& upstream,
                         const at::Tensor& gradient) const {
  const at::Tensor x = upstream.contiguous();
  const auto* ids = tokens.data_ptr<std::int64_t>();
  const auto count = static_cast<std::size_t>(x.size(0)),
             width = static_cast<std::size_t>(x.size(1));
  if (x.scalar_type() == at::kDouble)
    kernels::embedding_gradient(ids, count, width, x.data_ptr<double>(),
                                gradient.data_ptr<double>());
  else if (x.scalar_type() == at::kFloat)
    kernels::embedding_gradient(ids, count, width, x.data_ptr<float>(), gradient.data_ptr<float>());
  else
    kernels::embedding_gradient(ids, count, width, static_cast<const kernels::Bf16*>(x.data_ptr()),
                                gradient.data_ptr<float>());
}

const Operators& libtorch_operators() {
  static const Operators operators;
  return operators;
}

}  // namespace stoker::train
