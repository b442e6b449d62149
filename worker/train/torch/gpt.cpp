// Embedding, blocks, final norm and loss. The loss is computed in f32 whatever the model's type
// (bf16 losses collapse to a handful of values), in f64 for f64 models.
#include "worker/train/torch/gpt.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <torch/version.h>

#include "kernels/embedding_gradient.hpp"
#include "worker/train/torch/block.hpp"

namespace stoker::train {
namespace {

at::ScalarType scalar_type(recipe::Dtype dtype) {
  switch (dtype) {
    case recipe::Dtype::F64: return at::kDouble;
    case recipe::Dtype::F32: return at::kFloat;
    case recipe::Dtype::Bf16: return at::kBFloat16;
  }
  return at::kFloat;
}

TensorTable view_tables(FlatState& state) {
  const auto values = at::TensorOptions().dtype(scalar_type(state.dtype()));
  const auto wide =
      at::TensorOptions().dtype(state.element() == Element::F64 ? at::kDouble : at::kFloat);
  const auto flat_size = static_cast<std::int64_t>(state.table().flat_size);
  const at::Tensor flat = at::from_blob(state.parameters(), {flat_size}, values);
  const at::Tensor gradients = at::from_blob(state.gradients().data, {flat_size}, wide);
  TensorTable table;
  for (const Parameter& p : state.table().parameters) {
    const std::vector<std::int64_t> shape(p.shape.begin(), p.shape.end());
    const auto offset = static_cast<std::int64_t>(p.offset);
    const auto count = static_cast<std::int64_t>(p.count);
    table.values.push_back(flat.narrow(0, offset, count).view(shape));
    table.gradients.push_back(gradients.narrow(0, offset, count).view(shape));
  }
  return table;
}

struct Trace {  // of one micro-batch
  Pass pass;
  std::vector<std::uint64_t> ids;
  at::Tensor inputs, labels;  // [T]
  at::Tensor embedding_mask;
  std::vector<BlockTrace> blocks;
  at::Tensor last;  // input of the final norm
  NormTrace norm;
  at::Tensor log_probability;  // [T, vocabulary], f32 or f64
};

class Gpt final : public Model {
 public:
  Gpt(const recipe::ModelConfig& config, std::uint64_t seed, FlatState& state)
      : config_(config), seed_(seed), table_(view_tables(state)) {
    const auto s = static_cast<std::int64_t>(config.sequence);
    causal_ = at::full({s, s}, -std::numeric_limits<double>::infinity(), table_.values[0].options())
                  .triu_(1);
  }

  Result<double> forward(std::uint32_t slot, const MicroBatch& batch) override {
    return guarded([&] {
      if (slots_.size() <= slot) slots_.resize(slot + 1);
      Trace& trace = slots_[slot];
      trace = {};
      return run(batch, trace, true);
    });
  }

  Result<double> evaluate(const MicroBatch& batch) override {
    return guarded([&] {
      Trace trace;
      return run(batch, trace, false);
    });
  }

  Status backward(std::uint32_t slot, double scale, Accumulate how) override {
    auto done = guarded([&] {
      differentiate(slots_.at(slot), scale, how);
      slots_.at(slot) = {};
      return 0.0;
    });
    return done ? ok() : Status(fail(done.error()));
  }

 private:
  // The one place where LibTorch's exceptions become Results.
  template <class F>
  static Result<double> guarded(F f) {
    const at::NoGradGuard no_graph;
    try {
      return f();
    } catch (const std::exception& e) {
      std::string text = e.what();
      return fail("LibTorch failed: " + text.substr(0, text.find('\n')), "model");
    }
  }

  [[nodiscard]] std::size_t final_norm() const { return table_.values.size() - 2; }

  at::Tensor embed(Trace& t) {
    const auto& pass = t.pass;
    at::Tensor x = at::embedding(table_.values[kWordEmbedding], t.inputs);
    x.view({pass.samples, pass.sequence, x.size(1)}).add_(table_.values[kPositionEmbedding]);
    if (pass.drops()) {
      t.embedding_mask = dropout_mask(pass, 0, kernels::DropoutSite::Embedding, x.sizes(), x);
      x.mul_(t.embedding_mask);
    }
    return x;
  }

  double run(const MicroBatch& batch, Trace& t, bool training) {
    t.ids = batch.samples;
    const auto s = static_cast<std::int64_t>(config_.sequence);
    t.pass = {static_cast<std::int64_t>(t.ids.size()),
              s,
              static_cast<std::int64_t>(config_.heads),
              config_.dropout,
              seed_,
              training ? &t.ids : nullptr};
    const at::Tensor tokens = at::from_blob(const_cast<std::int64_t*>(batch.tokens.data()),
                                            {t.pass.samples, s + 1}, at::kLong);
    t.inputs = tokens.narrow(1, 0, s).clone(at::MemoryFormat::Contiguous).view({-1});
    t.labels = tokens.narrow(1, 1, s).clone(at::MemoryFormat::Contiguous).view({-1});
    at::Tensor x = embed(t);
    if (training) t.blocks.resize(config_.layers);
    for (std::uint32_t layer = 0; layer < config_.layers; ++layer)
      x = block_forward(table_, layer, t.pass, causal_, x, training ? &t.blocks[layer] : nullptr);
    t.last = x;
    t.norm = norm_forward(table_, final_norm(), x);
    const at::Tensor logits = at::mm(wide(t.norm.norm), wide(table_.values[kWordEmbedding]).t());
    t.log_probability = at::log_softmax(logits, 1);
    return -t.log_probability.gather(1, t.labels.unsqueeze(1)).mean(at::kDouble).item<double>();
  }

  void differentiate(Trace& t, double scale, Accumulate how) {
    const at::Tensor& word = table_.values[kWordEmbedding];
    const double each = scale / static_cast<double>(t.labels.numel());
    at::Tensor logits = t.log_probability.exp_();
    logits.scatter_add_(1, t.labels.unsqueeze(1),
                        at::full({t.labels.numel(), 1}, -1.0, logits.options()));
    logits.mul_(each);
    put_product(table_.gradients[kWordEmbedding], logits, t.norm.norm, how);
    at::Tensor x = norm_backward(table_, final_norm(), like(at::mm(logits, wide(word)), word),
                                 t.last, t.norm, how);
    for (std::uint32_t layer = static_cast<std::uint32_t>(config_.layers); layer-- > 0;) {
      x = block_backward(table_, layer, t.pass, t.blocks[layer], x, how);
      t.blocks[layer] = {};
    }
    if (t.embedding_mask.defined()) x.mul_(t.embedding_mask);
    put(table_.gradients[kPositionEmbedding],
        at::sum(x.view({t.pass.samples, t.pass.sequence, x.size(1)}), {0}, false,
                table_.gradients[kPositionEmbedding].scalar_type()),
        how);
    scatter(t.inputs, x.contiguous());
  }

  void scatter(const at::Tensor& tokens, const at::Tensor& x) {
    const auto* ids = tokens.data_ptr<std::int64_t>();
    const auto count = static_cast<std::size_t>(x.size(0)),
               width = static_cast<std::size_t>(x.size(1));
    at::Tensor& out = table_.gradients[kWordEmbedding];
    if (x.scalar_type() == at::kDouble)
      kernels::embedding_gradient(ids, count, width, x.data_ptr<double>(), out.data_ptr<double>());
    else if (x.scalar_type() == at::kFloat)
      kernels::embedding_gradient(ids, count, width, x.data_ptr<float>(), out.data_ptr<float>());
    else
      kernels::embedding_gradient(ids, count, width,
                                  static_cast<const kernels::Bf16*>(x.data_ptr()),
                                  out.data_ptr<float>());
  }

  recipe::ModelConfig config_;
  std::uint64_t seed_;
  TensorTable table_;
  at::Tensor causal_;
  std::vector<Trace> slots_;
};

// OpenBLAS reads its thread count from the environment when it is loaded, before main.
void set_blas_threads(int threads) {
  using Set = void (*)(int);
  if (auto* set = reinterpret_cast<Set>(::dlsym(RTLD_DEFAULT, "openblas_set_num_threads")))
    set(threads);
}

std::string blas_name() {
  using Config = char* (*)();
  if (auto* config = reinterpret_cast<Config>(::dlsym(RTLD_DEFAULT, "openblas_get_config")))
    return config();
  return "reference BLAS";
}

// "AVX2": from the one line of the library's own description that names it.
std::string cpu_capability() {
  const std::string config = at::show_config(), key = "CPU capability usage: ";
  const auto at = config.find(key);
  if (at == std::string::npos) return "unknown";
  const auto begin = at + key.size();
  return config.substr(begin, config.find('\n', begin) - begin);
}

}  // namespace

std::unique_ptr<Model> make_gpt(const recipe::ModelConfig& config, std::uint64_t seed,
                                FlatState& state) {
  return std::make_unique<Gpt>(config, seed, state);
}

void warm_up_torch(std::uint32_t threads) {
  at::set_num_threads(static_cast<int>(threads));
  static const bool once = [] {  // LibTorch aborts on a second call
    at::set_num_interop_threads(1);
    return true;
  }();
  (void)once;
  set_blas_threads(static_cast<int>(threads));
  recipe::ModelConfig tiny;
  tiny.layers = 1, tiny.hidden = 64, tiny.heads = 2, tiny.ffn = 128, tiny.sequence = 32;
  tiny.vocabulary = 64;
  auto state = FlatState::allocate(gpt_parameters(tiny), recipe::Dtype::F32);
  if (!state) return;
  state->initialise(1);
  const auto model = make_gpt(tiny, 1, *state);
  const MicroBatch batch{{0}, std::vector<std::int64_t>(33, 1)};
  if (model->forward(0, batch)) (void)model->backward(0, 1, Accumulate::Replace);
}

std::map<std::string, std::string> torch_numerics() {
  return {{"libtorch", TORCH_VERSION},
          {"blas", blas_name()},
          {"cpu_capability", cpu_capability()},
          {"threads", std::to_string(at::get_num_threads())}};
}

}  // namespace stoker::train
