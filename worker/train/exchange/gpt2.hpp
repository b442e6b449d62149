// The same model in Hugging Face's words (transformers, GPT2LMHeadModel): its configuration, its
// names, and where its elements lie. Its matrices are [in, out], ours [out, in]; its qkv columns
// are [q, k, v][head][size], our rows [head][q, k, v][size].
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"
#include "recipe/train_config.hpp"
#include "worker/train/model/parameter_table.hpp"

namespace stoker::train {

struct Gpt2Tensor {
  const Parameter* parameter;  // ours
  std::string name;            // "h.3.attn.c_attn.weight": without the leading "transformer."
  wire::Shape shape;
  bool transposed = false;
  std::uint64_t heads = 0;  // of qkv, whose rows lie in another order; else 0
};

inline constexpr const char* kGpt2Prefix = "transformer.";

// One for each parameter of the whole model, in its order; `table` must outlive them.
std::vector<Gpt2Tensor> gpt2_tensors(const ParameterTable& table, std::uint64_t heads);

// Elements [first, first + count) of our tensor, in its row-major order, to where they lie in the
// other; `theirs` is all of it. Elements of 4 or 8 bytes.
void put_ours(const Gpt2Tensor& tensor, std::uint64_t first, std::uint64_t count, const char* from,
              char* theirs, std::size_t each);
// The reverse: elements [first, first + count) of theirs; `ours` is all of ours.
void put_theirs(const Gpt2Tensor& tensor, std::uint64_t first, std::uint64_t count,
                const char* from, char* ours, std::size_t each);

// config.json. `end` is the end-of-document token, if known.
Json gpt2_config(const recipe::ModelConfig& model, bool f64, const std::optional<int>& end);
// Errors: another architecture, a variant that is not the GPT of stoker-train, numbers out of
// range.
Result<recipe::ModelConfig> read_gpt2_config(const Json& config, const std::string& object);

}  // namespace stoker::train
