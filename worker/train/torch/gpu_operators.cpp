#include "worker/train/torch/gpu_operators.hpp"

#include <ATen/Context.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <fmt/format.h>
#include <stdexcept>

#include "kernels/attention.hpp"
#include "kernels/column_sums.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/embedding_gradient.hpp"
#include "kernels/layer_norm.hpp"
#include "worker/train/torch/gpu_recording.hpp"
#include "worker/train/torch/operators.hpp"

namespace stoker::train {
namespace {

constexpr std::int64_t kColumnStep = 64;  // rows of the logits begin at aligned addresses

bool is_bf16(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16;
}

const kernels::Bf16* bf16(const at::Tensor& tensor) {
  return static_cast<const kernels::Bf16*>(tensor.data_ptr());
}
kernels::Bf16* bf16_out(const at::Tensor& tensor) {
  return static_cast<kernels::Bf16*>(tensor.data_ptr());
}

void must(kernels::GpuError error, const char* kernel) {
  if (error != 0)
    throw std::runtime_error(fmt::format("the kernel of {} failed (CUDA error {})", kernel, error));
}

// Only while it lives LibTorch refuses what has no fixed order of additions, instead of warning.
class StrictOrder {
 public:
  StrictOrder() { at::globalContext().setDeterministicAlgorithms(true, false); }
  StrictOrder(const StrictOrder&) = delete;
  StrictOrder& operator=(const StrictOrder&) = delete;
  ~StrictOrder() { at::globalContext().setDeterministicAlgorithms(true, true); }
};

class GpuOperators final : public Operators {
 public:
  [[nodiscard]] at::Tensor product(const at::Tensor& a, const at::Tensor& b,
                                   const at::Tensor& bias) const override {
    if (!is_bf16(a)) return Operators::product(a, b, bias);
    return bias.defined() ? at::addmm(bias, a, b) : at::mm(a, b);
  }

  [[nodiscard]] at::Tensor wide_product(const at::Tensor& a, const at::Tensor& b) const override {
    return is_bf16(a) ? at::mm(a, b, at::kFloat) : Operators::wide_product(a, b);
  }

  void add_product(const at::Tensor& gradient, const at::Tensor& left, const at::Tensor& right,
                   double factor) const override {
    if (!is_bf16(left)) return Operators::add_product(gradient, left, right, factor);
    at::Tensor out = gradient;
    at::addmm_out(out, out, left.t(), right, at::kFloat, 1, factor);
  }

  void add_columns(const at::Tensor& gradient, const at::Tensor& value) const override {
    const at::Tensor x = value.contiguous();
    const auto rows = static_cast<std::size_t>(x.size(0)),
               width = static_cast<std::size_t>(x.size(1));
    const at::Tensor space = workspace(width, gradient);
    auto *to = gradient.data_ptr<float>(), *parts = space.data_ptr<float>();
    must(is_bf16(x)
             ? kernels::add_column_sums(bf16(x), rows, width, parts, to, stream_now())
             : kernels::add_column_sums(x.data_ptr<float>(), rows, width, parts, to, stream_now()),
         "the sums of columns");
  }

  [[nodiscard]] NormTrace norm(const at::Tensor& input, const at::Tensor& weight,
                               const at::Tensor& bias) const override {
    at::Tensor sum;
    return is_bf16(input) ? sum_norm(input, at::Tensor(), weight, bias, sum)
                          : Operators::norm(input, weight, bias);
  }

  [[nodiscard]] NormTrace sum_norm(const at::Tensor& residual, const at::Tensor& value,
                                   const at::Tensor& weight, const at::Tensor& bias,
                                   at::Tensor& sum) const override {
    if (!is_bf16(residual)) return Operators::sum_norm(residual, value, weight, bias, sum);
    const at::Tensor in = residual.contiguous(), add = value.defined() ? value.contiguous() : value;
    NormTrace t;
    t.norm = at::empty_like(in);
    t.mean = at::empty({in.size(0)}, in.options().dtype(at::kFloat));
    t.rstd = at::empty_like(t.mean);
    kernels::LayerNormForward<kernels::Bf16> n;
    n.residual = bf16(in), n.weight = bf16(weight), n.bias = bf16(bias);
    if (add.defined()) {
      sum = at::empty_like(in);
      n.value = bf16(add), n.sum = bf16_out(sum);
    }
    n.normed = bf16_out(t.norm);
    n.mean = t.mean.data_ptr<float>(), n.rstd = t.rstd.data_ptr<float>();
    n.rows = static_cast<std::size_t>(in.size(0)), n.width = static_cast<std::size_t>(in.size(1));
    must(kernels::layer_norm(n, stream_now()), "the layer norm");
    return t;
  }

  [[nodiscard]] at::Tensor norm_backward(const at::Tensor& upstream, const at::Tensor& input,
                                         const NormTrace& t, const at::Tensor& weight,
                                         const at::Tensor& bias, const NormGradients& gradients,
                                         const at::Tensor& beside) const override {
    if (!is_bf16(input))
      return Operators::norm_backward(upstream, input, t, weight, bias, gradients, beside);
    const at::Tensor above = upstream.contiguous(), in = input.contiguous(),
                     other = beside.defined() ? beside.contiguous() : beside,
                     below = at::empty_like(in);
    const auto width = static_cast<std::size_t>(in.size(1));
    const at::Tensor space = workspace(2 * width, gradients.weight);
    kernels::LayerNormBackward<kernels::Bf16> n;
    n.upstream = bf16(above), n.sum = bf16(in), n.weight = bf16(weight);
    if (other.defined()) n.beside = bf16(other);
    n.mean = t.mean.data_ptr<float>(), n.rstd = t.rstd.data_ptr<float>();
    n.gradient = bf16_out(below);
    n.weight_gradient = gradients.weight.data_ptr<float>();
    n.bias_gradient = gradients.bias.data_ptr<float>();
    n.workspace = space.data_ptr<float>();
    n.rows = static_cast<std::size_t>(in.size(0)), n.width = width;
    must(kernels::layer_norm_backward(n, stream_now()), "the layer norm");
    return below;
  }

  // Without the matrix of scores: with dropout by our kernel, which has the CPU's masks, else by
  // LibTorch's.
  at::Tensor attention(std::uint32_t layer, const Pass& pass, const at::Tensor& causal,
                       const at::Tensor& qkv, AttentionTrace& t) const override {
    if (!is_bf16(qkv) || (pass.drops() && !in_tiles(pass)))
      return Operators::attention(layer, pass, causal, qkv, t);
    if (pass.drops()) return dropped_attention(layer, pass, qkv, t);
    t.qkv = qkv;
    const auto found = at::_scaled_dot_product_flash_attention(
        part(pass, qkv, 0), part(pass, qkv, 1), part(pass, qkv, 2), 0.0, true);
    t.out = std::get<0>(found), t.log_sum = std::get<1>(found);
    t.seed = std::get<6>(found), t.offset = std::get<7>(found);
    return rows_of(pass, t.out);
  }

  [[nodiscard]] at::Tensor attention_backward(const Pass& pass, const AttentionTrace& t,
                                              const at::Tensor& upstream) const override {
    if (!t.out.defined()) return Operators::attention_backward(pass, t, upstream);
    if (pass.drops()) return dropped_attention_backward(pass, t, upstream);
    const std::int64_t B = pass.samples, H = pass.heads, s = pass.sequence, d = pass.head_size;
    const StrictOrder strict;
    const auto [q, k, v] = at::_scaled_dot_product_flash_attention_backward(
        upstream.view({B, s, H, d}).transpose(1, 2), part(pass, t.qkv, 0), part(pass, t.qkv, 1),
        part(pass, t.qkv, 2), t.out, t.log_sum, at::Tensor(), at::Tensor(), s, s, 0.0, true, t.seed,
        t.offset);
    return at::stack({q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)}, 3)
        .view({B * s, H * 3 * d});
  }

  void forget(AttentionTrace& t) const override {
    if (!t.out.defined()) Operators::forget(t);
  }
  void complete(std::uint32_t layer, const Pass& pass, const at::Tensor& causal,
                AttentionTrace& t) const override {
    if (!t.out.defined()) Operators::complete(layer, pass, causal, t);
  }

  // The kernel turns the logits into their gradient in place: they never exist in f32.
  [[nodiscard]] Loss loss(const at::Tensor& norm, const at::Tensor& word,
                          const at::Tensor& labels) const override {
    if (!is_bf16(norm)) return Operators::loss(norm, word, labels);
    const std::int64_t tokens = norm.size(0), vocabulary = word.size(0);
    const std::int64_t stride = (vocabulary + kColumnStep - 1) / kColumnStep * kColumnStep;
    const at::Tensor all = at::empty({tokens, stride}, norm.options());
    at::Tensor logits = all.narrow(1, 0, vocabulary);
    at::mm_out(logits, norm, word.t());
    const at::Tensor losses = at::empty({tokens}, norm.options().dtype(at::kFloat));
    kernels::CrossEntropy<kernels::Bf16> c;
    c.logits = bf16_out(all), c.targets = labels.data_ptr<std::int64_t>();
    c.losses = losses.data_ptr<float>();
    c.tokens = static_cast<std::size_t>(tokens), c.stride = static_cast<std::size_t>(stride);
    c.vocabulary = static_cast<std::size_t>(vocabulary);
    must(kernels::cross_entropy(c, stream_now()), "the cross entropy");
    return {logits, losses.mean(at::kDouble)};
  }

  [[nodiscard]] at::Tensor loss_backward(const Loss& loss, const at::Tensor& norm,
                                         const at::Tensor& word, const at::Tensor& labels,
                                         double each, const at::Tensor& word_gradient,
                                         Later later) const override {
    if (!is_bf16(norm))
      return Operators::loss_backward(loss, norm, word, labels, each, word_gradient, later);
    stoker::train::add_product({this, word_gradient, loss.kept, norm, each}, later);
    return like(at::mm(loss.kept, word, at::kFloat).mul_(each), norm);
  }

  std::unique_ptr<Recorded> record(Device& device,
                                   const std::function<void()>& queue) const override {
    return record_torch(device, queue);
  }

  void add_rows(const at::Tensor& tokens, const at::Tensor& upstream,
                const at::Tensor& gradient) const override {
    if (tokens.numel() == 0) return;
    const at::Tensor order = std::get<1>(at::sort(tokens, true, 0, false)).to(at::kInt);
    const at::Tensor x = upstream.contiguous();
    const auto* ids = tokens.data_ptr<std::int64_t>();
    const auto* places = reinterpret_cast<const std::uint32_t*>(order.data_ptr<std::int32_t>());
    const auto count = static_cast<std::size_t>(x.size(0)),
               width = static_cast<std::size_t>(x.size(1));
    must(is_bf16(x) ? kernels::embedding_gradient(ids, places, count, width, bf16(x),
                                                  gradient.data_ptr<float>(), stream_now())
                    : kernels::embedding_gradient(ids, places, count, width, x.data_ptr<float>(),
                                                  gradient.data_ptr<float>(), stream_now()),
         "the embedding's gradient");
  }

 private:
  static kernels::AttentionShape shape_of(const Pass& pass) {
    const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    return {size(pass.samples), size(pass.heads), size(pass.sequence), size(pass.head_size)};
  }
  static bool in_tiles(const Pass& pass) { return kernels::in_tiles(shape_of(pass)); }

  // In place: the inputs are [T, H x 3 x d], and so are their gradients; out is [T, H x d].
  static kernels::AttentionForward<kernels::Bf16> kernel_of(const Pass& pass,
                                                            const AttentionTrace& t) {
    kernels::AttentionForward<kernels::Bf16> a;
    a.shape = shape_of(pass);
    const std::size_t d = a.shape.width, row = a.shape.heads * d, s = a.shape.sequence;
    a.query = bf16(t.qkv), a.key = a.query + d, a.value = a.key + d;
    a.out = bf16_out(t.out), a.log_sum = t.log_sum.data_ptr<float>();
    a.inputs = {3 * s * row, 3 * d, 3 * row}, a.outs = {s * row, d, row};
    a.dropout = {pass.device_ids,
                 kernels::dropout_draw({pass.seed, 0, t.layer, kernels::DropoutSite::Attention},
                                       pass.dropout),
                 static_cast<float>(1 / (1 - pass.dropout)),
                 static_cast<std::size_t>(pass.first_head)};
    return a;
  }
  static at::Tensor dropped_attention(std::uint32_t layer, const Pass& pass, const at::Tensor& qkv,
                                      AttentionTrace& t) {
    t.layer = layer, t.qkv = qkv.contiguous();
    t.out = at::empty({qkv.size(0), pass.heads * pass.head_size}, qkv.options());
    t.log_sum =
        at::empty({pass.samples * pass.heads * pass.sequence}, qkv.options().dtype(at::kFloat));
    must(kernels::attention(kernel_of(pass, t), stream_now()), "the attention");
    return t.out;
  }
  static at::Tensor dropped_attention_backward(const Pass& pass, const AttentionTrace& t,
                                               const at::Tensor& upstream) {
    const at::Tensor above = upstream.contiguous(), gradient = at::empty_like(t.qkv),
                     delta = at::empty_like(t.log_sum);
    kernels::AttentionBackward<kernels::Bf16> b;
    b.forward = kernel_of(pass, t);
    b.upstream = bf16(above);
    b.query = bf16_out(gradient), b.key = b.query + pass.head_size,
    b.value = b.key + pass.head_size;
    b.delta = delta.data_ptr<float>();
    must(kernels::attention_backward(b, stream_now()), "the attention");
    return gradient;
  }

  static at::Tensor workspace(std::size_t width, const at::Tensor& gradient) {
    return at::empty({static_cast<std::int64_t>(kernels::column_workspace(width))},
                     gradient.options());
  }
  // Queries, keys or values as a view [samples, H, s, d] of what the product gave.
  static at::Tensor part(const Pass& pass, const at::Tensor& qkv, std::int64_t which) {
    return qkv.view({pass.samples, pass.sequence, pass.heads, 3, pass.head_size})
        .select(3, which)
        .transpose(1, 2);
  }
  // From [samples, H, s, d] to [T, H x d].
  static at::Tensor rows_of(const Pass& pass, const at::Tensor& out) {
    return out.transpose(1, 2).reshape({pass.samples * pass.sequence, pass.heads * pass.head_size});
  }
};

}  // namespace

const Operators& gpu_operators() {
  static const GpuOperators operators;
  return operators;
}

}  // namespace stoker::train
