// Embedding, blocks, final norm and loss. The loss is computed in f32 for every type of the model
// (bf16 losses collapse to a handful of values), in f64 for f64 models.
#include "worker/train/torch/gpt.hpp"

#include <ATen/core/grad_mode.h>
#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>

#include "worker/train/comm/self_comm.hpp"
#include "worker/train/torch/dropout_mask.hpp"
#include "worker/train/torch/head.hpp"
#include "worker/train/torch/pass_trace.hpp"
#include "worker/train/torch/repeats.hpp"
#include "worker/train/torch/tensor_table.hpp"

namespace stoker::train {
namespace {

class Gpt final : public Model {
 public:
  Gpt(const recipe::ModelConfig& config, ModelOptions options, FlatState& state, Comm& comm,
      const Operators& operators)
      : config_(config),
        options_(options),
        device_(state.device().is_host() ? nullptr : &state.device()),
        table_(view_tables(state, comm, options, operators)) {
    const auto s = static_cast<std::int64_t>(config.sequence);
    causal_ = at::full({s, s}, -std::numeric_limits<double>::infinity(), table_.values[0].options())
                  .triu_(1);
    if (may_repeat())
      repeats_.emplace(*device_, operators, passes(), table_.gradients[0], comm.rank() == 0);
  }

  [[nodiscard]] std::size_t activation_bytes(const MicroBatch& batch) const override {
    const std::size_t share = table_.sequence ? table_.layout->placement.tensor : 1;
    return batch.samples.size() * batch.sequence() / share * config_.hidden *
           table_.values[0].element_size();
  }

  Result<double> forward(Unit unit, const MicroBatch& batch, const Activation& input,
                         Activation& output) override {
    return guarded([&] {
      if (repeats_)
        if (const auto loss = repeats_->forward(unit, batch)) return *loss;
      return run(unit, batch, input, output, traces_[unit], true);
    });
  }

  Result<double> evaluate(Unit unit, const MicroBatch& batch, const Activation& input,
                          Activation& output) override {
    PassTrace trace;
    return guarded([&] { return run(unit, batch, input, output, trace, false); });
  }

  // The whole model's logits after these tokens, at most its sequence, without dropout.
  Result<std::vector<double>> predict(std::span<const std::int64_t> tokens) {
    std::vector<double> logits;
    const auto done = guarded([&] {
      PassTrace t;
      t.ids = {0};
      begin_pass(t, static_cast<std::int64_t>(tokens.size()), false);
      t.inputs = here(checked({tokens.data(), tokens.size()}).view({-1}).clone());
      at::Tensor x = embed(t);
      for (std::uint32_t i = 0; i < config_.layers; ++i)
        x = block_forward(table_, i, t.pass, causal_of(t.pass), x, nullptr);
      x = norm_forward(table_, *table_.layout->final_norm, x).norm;
      x = logits_of(table_, x.narrow(0, x.size(0) - 1, 1)).to(at::kDouble).cpu().contiguous();
      logits.assign(x.data_ptr<double>(), x.data_ptr<double>() + x.numel());
      return 0.0;
    });
    if (!done) return fail(done.error());
    return logits;
  }

  Status backward(Unit unit, double scale, const Activation& upstream,
                  Activation& downstream) override {
    return settled(guarded([&] {
      if (!repeats_ || !repeats_->backward(unit, scale)) {
        differentiate(unit.stage, traces_.at(unit), scale, upstream, downstream, nullptr);
        traces_.erase(unit);
      }
      if (repeats_) repeats_->end(unit);
      return 0.0;
    }));
  }

  Status input_gradient(Unit unit, double scale, const Activation& upstream,
                        Activation& downstream) override {
    return settled(guarded([&] {
      std::vector<Product> later;
      differentiate(unit.stage, traces_.at(unit), scale, upstream, downstream, &later);
      traces_[unit] = {};  // the products hold what they need
      traces_[unit].later = std::move(later);
      return 0.0;
    }));
  }

  Status weight_gradient(Unit unit) override {
    return settled(guarded([&] {
      for (const Product& product : traces_.at(unit).later) product.add();
      traces_.erase(unit);
      return 0.0;
    }));
  }

 private:
  // The one place where LibTorch's exceptions become Results.
  template <class F>
  static Result<double> guarded(F f) {
    const at::NoGradGuard no_graph;
    try {
      return f();
    } catch (const SumFailed& failed) {
      return fail(failed.error);
    } catch (const c10::OutOfMemoryError& e) {
      const std::string text = e.what();
      return fail(fmt::format("{}: {}", kOutOfDeviceMemory, text.substr(0, text.find('\n'))),
                  "model", "use more ranks, train.recompute or a smaller micro-batch");
    } catch (const std::exception& e) {
      std::string text = e.what();
      return fail("LibTorch failed: " + text.substr(0, text.find('\n')), "model");
    }
  }
  static Status settled(const Result<double>& done) {
    return done ? ok() : Status(fail(done.error()));
  }

  [[nodiscard]] const StagePart& part_of(std::uint32_t stage) const {
    for (const StagePart& part : table_.layout->placement.parts)
      if (part.stage == stage) return part;
    throw std::out_of_range("this rank does not hold the stage");
  }
  [[nodiscard]] bool is_last(std::uint32_t stage) const {
    return stage + 1 == table_.layout->placement.stages;
  }

  // A view: the sequence may be shorter than the model's.
  [[nodiscard]] at::Tensor causal_of(const Pass& pass) const {
    return causal_.narrow(0, 0, pass.sequence).narrow(1, 0, pass.sequence);
  }

  // A copy: what came from another stage lives as long as the trace.
  at::Tensor tensor_of(const PassTrace& t, const Activation& activation) const {
    const std::int64_t tokens = t.pass.samples * t.pass.own_tokens;
    const auto hidden = static_cast<std::int64_t>(config_.hidden);
    const at::TensorOptions& options = table_.values[0].options();
    if (activation.size() !=
        static_cast<std::size_t>(tokens * hidden) * table_.values[0].element_size())
      throw std::length_error("an activation of another size");
    return here(at::from_blob(const_cast<char*>(activation.data()), {tokens, hidden},
                              options.device(at::kCPU))
                    .clone());
  }
  // The tokens themselves, all within the vocabulary: a GPU does not say which one was not.
  [[nodiscard]] at::Tensor checked(std::span<const std::int64_t> tokens) const {
    TORCH_CHECK(!tokens.empty(), "no tokens");
    const auto [least, most] = std::minmax_element(tokens.begin(), tokens.end());
    TORCH_CHECK(*least >= 0 && *most < static_cast<std::int64_t>(config_.vocabulary),
                "a token is outside the vocabulary of ", config_.vocabulary);
    return at::from_blob(const_cast<std::int64_t*>(tokens.data()),
                         {static_cast<std::int64_t>(tokens.size())}, at::kLong);
  }
  // On the model's device.
  [[nodiscard]] at::Tensor here(const at::Tensor& tensor) const {
    return tensor.to(table_.values[0].device());
  }
  static void put(const at::Tensor& tensor, Activation& out) {
    const at::Tensor plain = tensor.contiguous().cpu();
    const auto* bytes = static_cast<const char*>(plain.data_ptr());
    out.assign(bytes, bytes + plain.nbytes());
  }

  at::Tensor embed(PassTrace& t) {
    const auto& pass = t.pass;
    at::Tensor x = look_up(table_, pass, t.inputs);
    x.view({pass.samples, pass.own_tokens, x.size(1)})
        .add_(table_.values[*table_.layout->position].narrow(0, pass.first_token, pass.own_tokens));
    if (pass.drops()) {
      t.embedding_mask = hidden_mask(pass, 0, kernels::DropoutSite::Embedding, x);
      x.mul_(t.embedding_mask);
    }
    return x;
  }

  void begin_pass(PassTrace& t, std::int64_t sequence, bool training) const {
    const Placement& place = table_.layout->placement;
    const auto heads = static_cast<std::int64_t>(config_.heads / place.tensor);
    t.pass.samples = static_cast<std::int64_t>(t.ids.size());
    t.pass.sequence = sequence;
    const std::int64_t share = table_.sequence ? place.tensor : 1;
    TORCH_CHECK(sequence % share == 0, "a sequence of ", sequence, " tokens cannot be split into ",
                share, " parts");
    t.pass.own_tokens = sequence / share;
    t.pass.first_token = table_.sequence ? t.pass.own_tokens * place.tensor_rank : 0;
    t.pass.heads = heads;
    t.pass.first_head = heads * place.tensor_rank;
    t.pass.head_size = static_cast<std::int64_t>(config_.hidden / config_.heads);
    t.pass.dropout = config_.dropout;
    t.pass.seed = options_.seed;
    t.pass.device = device_;
    t.pass.ids = training ? &t.ids : nullptr;
  }

  void begin(const MicroBatch& batch, PassTrace& t, bool training) const {
    const auto s = static_cast<std::int64_t>(batch.sequence());
    TORCH_CHECK(batch.sequence() <= config_.sequence, "a sample of ", s,
                " tokens is longer than the model's sequence of ", config_.sequence);
    t = {};
    t.ids = batch.samples;
    begin_pass(t, s, training);
    const auto options = at::TensorOptions().device(table_.values[0].device()).dtype(at::kLong);
    t.inputs = at::empty({t.pass.samples * s}, options);
    t.labels = at::empty_like(t.inputs);
    if (device_ != nullptr && t.pass.drops()) {
      t.device_ids = at::empty({t.pass.samples}, options);
      t.pass.device_ids =
          reinterpret_cast<const std::uint64_t*>(t.device_ids.data_ptr<std::int64_t>());
    }
    fill(batch, t);
  }

  // What differs from one micro-batch to the next of its shape.
  void fill(const MicroBatch& batch, PassTrace& t) const {
    t.ids = batch.samples;
    const std::int64_t samples = t.pass.samples, s = t.pass.sequence;
    const at::Tensor tokens = checked(batch.tokens).view({samples, s + 1});
    t.inputs.copy_(tokens.narrow(1, 0, s).reshape({-1}));
    t.labels.copy_(tokens.narrow(1, 1, s).reshape({-1}));
    if (t.device_ids.defined())
      t.device_ids.copy_(at::from_blob(t.ids.data(), {samples}, at::kLong));
  }

  // The passes of a whole model on a device: nothing in them waits for another rank.
  [[nodiscard]] bool may_repeat() const {
    return device_ != nullptr && device_->records() && table_.layout->placement.stages == 1 &&
           !table_.is_split();
  }
  Repeats::Passes passes() {
    return {[this](const MicroBatch& batch, PassTrace& t) { begin(batch, t, true); },
            [this](const MicroBatch& batch, PassTrace& t) { fill(batch, t); },
            [this](PassTrace& t) { compute({}, {}, t, true); },
            [this](PassTrace& t, double scale) {
              Activation none;
              differentiate(0, t, scale, none, none, nullptr);
            }};
  }

  static std::uint32_t layer_of(const StagePart& part, std::uint32_t i) {
    return static_cast<std::uint32_t>(part.first_layer) + i;
  }

  // The stage's i-th layer; keeps what the backward pass will not compute again.
  at::Tensor keep_layer(PassTrace& t, const StagePart& part, std::uint32_t i, const at::Tensor& x) {
    if (options_.recompute == recipe::Recompute::Full) {
      if (i % options_.recompute_every == 0) t.blocks[i].input = x;
      return block_forward(table_, layer_of(part, i), t.pass, causal_of(t.pass), x, nullptr);
    }
    at::Tensor out =
        block_forward(table_, layer_of(part, i), t.pass, causal_of(t.pass), x, &t.blocks[i]);
    if (options_.recompute == recipe::Recompute::Selective)
      table_.operators->forget(t.blocks[i].attention);
    return out;
  }

  // Before the layer's backward pass: what keep_layer left out of it and of its stretch.
  void complete_layer(PassTrace& t, const StagePart& part, std::uint32_t i) {
    const at::Tensor causal = causal_of(t.pass);
    if (options_.recompute == recipe::Recompute::Selective)
      table_.operators->complete(layer_of(part, i), t.pass, causal, t.blocks[i].attention);
    if (options_.recompute != recipe::Recompute::Full || t.blocks[i].attention.qkv.defined())
      return;
    auto at = static_cast<std::uint32_t>(i - i % options_.recompute_every);
    at::Tensor x = t.blocks[at].input;
    for (; at < i; ++at)
      x = block_forward(table_, layer_of(part, at), t.pass, causal, x, &t.blocks[at]);
    block_trace(table_, layer_of(part, i), t.pass, causal, x, t.blocks[i]);
  }

  double run(Unit unit, const MicroBatch& batch, const Activation& input, Activation& output,
             PassTrace& t, bool training) {
    begin(batch, t, training);
    const at::Tensor x = compute(unit, input, t, training);
    if (is_last(unit.stage)) return t.loss.mean.item<double>();
    put(x, output);
    return 0;
  }

  // The last stage computes the loss, others return their activation.
  at::Tensor compute(Unit unit, const Activation& input, PassTrace& t, bool training) {
    const StagePart& part = part_of(unit.stage);
    at::Tensor x = unit.stage == 0 ? embed(t) : tensor_of(t, input);
    if (training) t.blocks.resize(part.layers);
    for (std::uint32_t i = 0; i < part.layers; ++i)
      x = training
              ? keep_layer(t, part, i, x)
              : block_forward(table_, layer_of(part, i), t.pass, causal_of(t.pass), x, nullptr);
    if (!is_last(unit.stage)) return x;
    t.last = x;
    t.norm = norm_forward(table_, *table_.layout->final_norm, x);
    t.loss = loss_of(table_, t.pass, t.norm.norm, t.labels);
    return x;
  }

  void differentiate(std::uint32_t stage, PassTrace& t, double scale, const Activation& upstream,
                     Activation& downstream, Later later) {
    const StagePart& part = part_of(stage);
    at::Tensor x;
    if (is_last(stage)) {
      const double each = scale / static_cast<double>(t.labels.numel());
      x = norm_backward(table_, *table_.layout->final_norm,
                        loss_backward(table_, t.pass, t.loss, t.norm.norm, t.labels, each, later),
                        t.last, t.norm);
    } else {
      x = tensor_of(t, upstream);
    }
    for (auto i = static_cast<std::uint32_t>(part.layers); i-- > 0;) {
      complete_layer(t, part, i);
      x = block_backward(table_, layer_of(part, i), t.pass, t.blocks[i], x, later);
      t.blocks[i] = {};
    }
    if (stage > 0) {
      put(x, downstream);
      return;
    }
    if (t.embedding_mask.defined()) x = x * t.embedding_mask;
    x = whole(table_, t.pass, x);
    const at::Tensor position =
        table_.gradients[*table_.layout->position].narrow(0, 0, t.pass.sequence);
    position.add_(at::sum(x.view({t.pass.samples, t.pass.sequence, x.size(1)}), {0}, false,
                          position.scalar_type()));
    look_up_backward(table_, t.inputs, x);
  }

  recipe::ModelConfig config_;
  ModelOptions options_;
  Device* device_;  // null: the CPU
  TensorTable table_;
  at::Tensor causal_;
  std::map<Unit, PassTrace> traces_;
  std::optional<Repeats> repeats_;
};

}  // namespace

std::unique_ptr<Model> make_gpt(const recipe::ModelConfig& config, ModelOptions options,
                                FlatState& state, Comm& comm, const Operators& operators) {
  return std::make_unique<Gpt>(config, options, state, comm, operators);
}

Predictor make_predictor(const recipe::ModelConfig& config, FlatState& state) {
  struct Alone {
    SelfComm comm;
    Gpt model;
    Alone(const recipe::ModelConfig& c, FlatState& s)
        : model(c, {0, 1min}, s, comm, libtorch_operators()) {}
  };
  auto alone = std::make_shared<Alone>(config, state);
  return [alone](std::span<const std::int64_t> tokens) { return alone->model.predict(tokens); };
}

}  // namespace stoker::train
