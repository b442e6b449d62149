// The parameters of the GPT as a table: names, shapes, how each starts, and where it lies in the
// flat buffer. The order and the offsets are a function of the model's configuration alone. A tied
// embedding is one parameter; biases and norms (1-D) have no weight decay.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recipe/train_config.hpp"

namespace stoker::train {

enum class InitKind { Normal, Zero, One };

struct Parameter {
  std::string name;  // "blocks.3.attention.qkv.weight"
  std::vector<std::uint64_t> shape;
  InitKind init = InitKind::Zero;
  double deviation = 0;    // of Normal
  std::size_t offset = 0;  // elements from the start of the flat buffer; a multiple of 64
  std::size_t count = 0;
  [[nodiscard]] bool decays() const { return shape.size() > 1; }
};

struct ParameterTable {
  std::vector<Parameter> parameters;
  std::size_t flat_size = 0;  // with the padding between parameters
  [[nodiscard]] std::uint64_t scalars() const;
};

// Places of the parameters in the table.
inline constexpr std::size_t kWordEmbedding = 0, kPositionEmbedding = 1, kFirstBlock = 2;
enum BlockParameter : std::size_t {
  kNorm1Weight,
  kNorm1Bias,
  kQkvWeight,  // rows are [head][q, k, v][head size]: a tensor-parallel rank takes whole heads
  kQkvBias,
  kAttentionOutWeight,
  kAttentionOutBias,
  kNorm2Weight,
  kNorm2Bias,
  kMlpInWeight,
  kMlpInBias,
  kMlpOutWeight,
  kMlpOutBias,
  kPerBlock
};

// Matrices are [out, in]. Initialisation: N(0, std), the two output projections of a block
// N(0, std / sqrt(2 layers)) (GPT-2), biases 0, norms 1.
ParameterTable gpt_parameters(const recipe::ModelConfig& model);

}  // namespace stoker::train
