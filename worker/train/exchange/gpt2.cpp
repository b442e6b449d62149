#include "worker/train/exchange/gpt2.hpp"

#include <array>
#include <cstring>
#include <fmt/format.h>

namespace stoker::train {
namespace {

constexpr double kEpsilon = 1e-5;  // of layer norms
constexpr std::uint64_t kQkv = 3;

struct BlockName {
  const char* name;
  bool transposed;
};
constexpr std::array<BlockName, kPerBlock> kBlockNames{{{"ln_1.weight", false},
                                                        {"ln_1.bias", false},
                                                        {"attn.c_attn.weight", true},
                                                        {"attn.c_attn.bias", false},
                                                        {"attn.c_proj.weight", true},
                                                        {"attn.c_proj.bias", false},
                                                        {"ln_2.weight", false},
                                                        {"ln_2.bias", false},
                                                        {"mlp.c_fc.weight", true},
                                                        {"mlp.c_fc.bias", false},
                                                        {"mlp.c_proj.weight", true},
                                                        {"mlp.c_proj.bias", false}}};

Gpt2Tensor plain(const Parameter& p, std::string name, bool transposed) {
  Gpt2Tensor tensor{&p, std::move(name), p.shape, transposed, 0};
  if (transposed) std::swap(tensor.shape[0], tensor.shape[1]);
  return tensor;
}

// Our row of qkv ([head][q, k, v][size]) -> theirs ([q, k, v][head][size]), and back.
std::uint64_t their_row(const Gpt2Tensor& tensor, std::uint64_t r) {
  if (tensor.heads == 0) return r;
  const std::uint64_t hidden = tensor.parameter->shape[0] / kQkv, size = hidden / tensor.heads;
  return r / size % kQkv * hidden + r / (kQkv * size) * size + r % size;
}
std::uint64_t our_row(const Gpt2Tensor& tensor, std::uint64_t r) {
  if (tensor.heads == 0) return r;
  const std::uint64_t hidden = tensor.parameter->shape[0] / kQkv, size = hidden / tensor.heads;
  return (r % hidden / size * kQkv + r / hidden) * size + r % size;
}

// Elements [first, first + count) of a tensor, each of so many bytes.
struct Elements {
  std::uint64_t first, count;
  std::size_t each;
};

// Elements of a matrix of so many columns, each to place_of(row, column).
template <class Place>
void scatter(const Elements& part, std::uint64_t columns, const char* from, char* to,
             const Place& place_of) {
  std::uint64_t row = part.first / columns, column = part.first % columns;
  for (std::uint64_t i = 0; i < part.count; ++i) {
    const std::uint64_t place = place_of(row, column);
    if (part.each == 8)
      std::memcpy(to + place * 8, from + i * 8, 8);
    else
      std::memcpy(to + place * 4, from + i * 4, 4);
    if (++column == columns) column = 0, ++row;
  }
}

std::uint64_t columns_of(const wire::Shape& shape) {
  return shape.size() > 1 ? shape[1] : 1;
}

class ConfigReader {
 public:
  ConfigReader(const Json& config, const std::string& object) : config_(config), object_(object) {}

  // Absent or null: the default. Else it must be that.
  Status must_be(const char* key, const Json& wanted) const {
    const auto found = config_.find(key);
    if (found == config_.end() || found->is_null() || *found == wanted) return ok();
    return fail(fmt::format("{} is {}, stoker-train computes {}", key, dump_json(*found),
                            dump_json(wanted)),
                object_);
  }
  Status number(const char* key, std::uint64_t most, std::uint64_t& out) const {
    const auto found = config_.find(key);
    if (found == config_.end() || !found->is_number_unsigned() ||
        found->get<std::uint64_t>() == 0 || found->get<std::uint64_t>() > most)
      return fail(fmt::format("{} must be a number from 1 to {}", key, most), object_);
    out = found->get<std::uint64_t>();
    return ok();
  }
  [[nodiscard]] bool has(const char* key) const {
    const auto found = config_.find(key);
    return found != config_.end() && !found->is_null();
  }
  [[nodiscard]] double fraction(const char* key, double otherwise) const {
    const auto found = config_.find(key);
    return found != config_.end() && found->is_number() ? found->get<double>() : otherwise;
  }

 private:
  const Json& config_;
  const std::string& object_;
};

}  // namespace

std::vector<Gpt2Tensor> gpt2_tensors(const ParameterTable& table, std::uint64_t heads) {
  std::vector<Gpt2Tensor> tensors;
  for (std::size_t i = 0; i < table.parameters.size(); ++i)
    tensors.push_back(plain(table.parameters[i], "", false));
  tensors[*table.word].name = "wte.weight";
  tensors[*table.position].name = "wpe.weight";
  tensors[*table.final_norm].name = "ln_f.weight";
  tensors[*table.final_norm + 1].name = "ln_f.bias";
  for (const auto& [layer, first] : table.blocks)
    for (std::size_t i = 0; i < kPerBlock; ++i) {
      const auto& [name, transposed] = kBlockNames[i];
      Gpt2Tensor& tensor = tensors[first + i];
      tensor = plain(table.parameters[first + i], fmt::format("h.{}.{}", layer, name), transposed);
      if (i == kQkvWeight || i == kQkvBias) tensor.heads = heads;
    }
  return tensors;
}

void put_ours(const Gpt2Tensor& tensor, std::uint64_t first, std::uint64_t count, const char* from,
              char* theirs, std::size_t each) {
  const std::uint64_t rows = tensor.parameter->shape[0];
  const std::uint64_t columns = columns_of(tensor.parameter->shape);
  scatter({first, count, each}, columns, from, theirs, [&](std::uint64_t r, std::uint64_t c) {
    return tensor.transposed ? c * rows + their_row(tensor, r) : their_row(tensor, r) * columns + c;
  });
}

void put_theirs(const Gpt2Tensor& tensor, std::uint64_t first, std::uint64_t count,
                const char* from, char* ours, std::size_t each) {
  const std::uint64_t columns = columns_of(tensor.parameter->shape);
  scatter({first, count, each}, columns_of(tensor.shape), from, ours,
          [&](std::uint64_t r, std::uint64_t c) {
            return tensor.transposed ? our_row(tensor, c) * columns + r
                                     : our_row(tensor, r) * columns + c;
          });
}

Json gpt2_config(const recipe::ModelConfig& m, bool f64, const std::optional<int>& end) {
  Json config{{"architectures", {"GPT2LMHeadModel"}},
              {"model_type", "gpt2"},
              {"activation_function", "gelu_new"},
              {"attn_pdrop", m.dropout},
              {"embd_pdrop", m.dropout},
              {"resid_pdrop", m.dropout},
              {"initializer_range", m.init_std},
              {"layer_norm_epsilon", kEpsilon},
              {"n_ctx", m.sequence},
              {"n_positions", m.sequence},
              {"n_embd", m.hidden},
              {"n_head", m.heads},
              {"n_inner", m.ffn},
              {"n_layer", m.layers},
              {"scale_attn_weights", true},
              {"tie_word_embeddings", true},
              {"torch_dtype", f64 ? "float64" : "float32"},
              {"vocab_size", m.vocabulary}};
  config["bos_token_id"] = config["eos_token_id"] = nullptr;
  if (end) config["bos_token_id"] = config["eos_token_id"] = *end;
  return config;
}

Result<recipe::ModelConfig> read_gpt2_config(const Json& config, const std::string& object) {
  if (!config.is_object()) return fail("not a JSON object", object);
  const ConfigReader in(config, object);
  if (config.value("model_type", Json()) != "gpt2")
    return fail(fmt::format("another architecture: model_type is {}",
                            dump_json(config.value("model_type", Json()))),
                object, "stoker-train imports gpt2");
  if (config.value("activation_function", Json()) != "gelu_pytorch_tanh")  // the same function
    STOKER_TRY_STATUS(in.must_be("activation_function", "gelu_new"));
  STOKER_TRY_STATUS(in.must_be("layer_norm_epsilon", kEpsilon));
  STOKER_TRY_STATUS(in.must_be("scale_attn_weights", true));
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"})
    STOKER_TRY_STATUS(in.must_be(key, false));
  STOKER_TRY_STATUS(in.must_be("tie_word_embeddings", true));
  recipe::ModelConfig m;
  constexpr std::uint64_t kMost = 1u << 20, kMostTokens = 1u << 28;
  STOKER_TRY_STATUS(in.number("n_layer", 1u << 12, m.layers));
  STOKER_TRY_STATUS(in.number("n_embd", kMost, m.hidden));
  STOKER_TRY_STATUS(in.number("n_head", m.hidden, m.heads));
  STOKER_TRY_STATUS(in.number("n_positions", kMost, m.sequence));
  STOKER_TRY_STATUS(in.number("vocab_size", kMostTokens, m.vocabulary));
  m.ffn = 4 * m.hidden;
  if (in.has("n_inner")) STOKER_TRY_STATUS(in.number("n_inner", 16 * kMost, m.ffn));
  if (m.hidden % m.heads != 0)
    return fail(fmt::format("n_embd {} is not a multiple of n_head {}", m.hidden, m.heads), object);
  m.dropout = in.fraction("resid_pdrop", 0.1);
  m.init_std = in.fraction("initializer_range", 0.02);
  return m;
}

}  // namespace stoker::train
