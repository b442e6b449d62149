// The parameters of the GPT as a table: names, shapes, how each starts, which part of it this rank
// holds and where that lies in the flat buffer. The order and the offsets are a function of the
// model's configuration and the rank's place alone. A tied embedding is one parameter; biases and
// norms (1-D) have no weight decay.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "recipe/train_config.hpp"
#include "wire/tensor_box.hpp"
#include "worker/train/comm/mesh.hpp"

namespace stoker::train {

enum class InitKind { Normal, Zero, One };

// [begin, end) of the flat buffer, in elements.
struct FlatRange {
  std::size_t begin = 0, end = 0;
  [[nodiscard]] std::size_t size() const { return end - begin; }
  friend bool operator==(const FlatRange&, const FlatRange&) = default;
};

struct Parameter {
  std::string name;                  // "blocks.3.attention.qkv.weight"
  std::vector<std::uint64_t> shape;  // of the whole tensor
  InitKind init = InitKind::Zero;
  double deviation = 0;    // of Normal
  wire::TensorBox box;     // what this rank holds of it
  bool replicated = true;  // every tensor rank holds all of it
  // This rank's copy is the one that counts: in the norm, in digests and in checkpoints. Another
  // rank has the same elements otherwise: tensor rank 0, or the first stage for a tied embedding.
  bool counts = true;
  std::size_t offset = 0;  // elements from the start of the flat buffer; a multiple of 64
  std::size_t count = 0;   // elements of the box
  [[nodiscard]] bool decays() const { return shape.size() > 1; }
};

struct StagePart {  // one pipeline stage that this rank computes
  std::uint32_t stage = 0;
  std::uint64_t first_layer = 0, layers = 0;
  FlatRange range;  // its parameters
};

// The part of the model that one rank holds.
struct Placement {
  std::uint32_t tensor = 1, tensor_rank = 0;
  std::uint32_t stages = 1;        // of the whole model
  std::vector<StagePart> parts{};  // this rank's stages, ascending; without ranges
};

struct ParameterTable {
  std::vector<Parameter> parameters;
  std::size_t flat_size = 0;  // with the padding between parameters
  Placement placement;        // with ranges
  // Places in `parameters`.
  std::optional<std::size_t> word, position, final_norm;
  std::map<std::uint64_t, std::size_t> blocks;  // layer -> its first parameter

  [[nodiscard]] std::uint64_t scalars() const;
  [[nodiscard]] bool holds_input() const { return position.has_value(); }
  [[nodiscard]] bool holds_output() const { return final_norm.has_value(); }
};

// Places inside a block.
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

// Rows of the embedding that a tensor rank holds: equal parts of the vocabulary padded to 128 x
// `tensor`. The padded rows exist in no memory and no sum: the last ranks hold fewer, even none.
struct VocabularyPart {
  std::uint64_t first = 0, rows = 0;
};
VocabularyPart vocabulary_part(std::uint64_t vocabulary, std::uint32_t tensor,
                               std::uint32_t tensor_rank);

// One rank that holds everything.
Placement whole_model(const recipe::ModelConfig& model);
// The place of `rank`. `rank_of_stage` says which pipeline rank computes a stage; layers are split
// as recipe::split_layers does (the configuration was checked).
Placement place_of_rank(const recipe::ModelConfig& model, const Mesh& mesh,
                        const std::vector<std::uint32_t>& rank_of_stage, std::uint32_t rank);

// Matrices are [out, in]. Initialisation: N(0, std), the two output projections of a block
// N(0, std / sqrt(2 layers)) (GPT-2), biases 0, norms 1. qkv and mlp.in are split over the tensor
// ranks by rows, attention.out and mlp.out by columns, the word embedding by rows.
ParameterTable gpt_parameters(const recipe::ModelConfig& model, const Placement& placement);

// The whole model and its parts on a mesh.
struct ModelLayout {
  recipe::ModelConfig model;
  Mesh mesh;
  std::vector<std::uint32_t> rank_of_stage;  // pipeline rank of each stage
  [[nodiscard]] ParameterTable of_rank(std::uint32_t rank) const;
  [[nodiscard]] ParameterTable whole() const;
  // Two pipeline ranks hold the tied embedding.
  [[nodiscard]] bool ties_ranks() const { return rank_of_stage.front() != rank_of_stage.back(); }
};

}  // namespace stoker::train
