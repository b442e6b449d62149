#include "worker/train/model/parameter_table.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "common/check.hpp"
#include "recipe/pipeline_plan.hpp"

namespace stoker::train {
namespace {

constexpr std::size_t kAlignment = 64;  // elements: cache lines, and what sharding by ranges likes
constexpr std::uint64_t kVocabularyMultiple = 128;

enum class Cut { None, Rows, Columns };  // over the tensor ranks

class Builder {
 public:
  Builder(const recipe::ModelConfig& model, const Placement& placement)
      : model_(model), place_(placement) {
    table_.placement = placement;
  }

  ParameterTable build() {
    for (StagePart& part : table_.placement.parts) {
      part.range.begin = table_.flat_size;
      const bool first = part.stage == 0, last = part.stage + 1 == place_.stages;
      if (first) add_input();
      if (last && !table_.word) add_word(false);
      for (std::uint64_t i = 0; i < part.layers; ++i) add_block(part.first_layer + i);
      if (last) {
        table_.final_norm = table_.parameters.size();
        norm("final_norm");
      }
      part.range.end = table_.flat_size;
    }
    return std::move(table_);
  }

 private:
  void add(std::string name, std::vector<std::uint64_t> shape, InitKind init, double deviation,
           wire::TensorBox box, bool replicated) {
    Parameter p{std::move(name),
                std::move(shape),
                init,
                deviation,
                std::move(box),
                replicated,
                !replicated || place_.tensor_rank == 0};
    p.offset = table_.flat_size;
    p.count = wire::elements_of(p.box.extent);
    table_.flat_size = (p.offset + p.count + kAlignment - 1) / kAlignment * kAlignment;
    table_.parameters.push_back(std::move(p));
  }

  void split(std::string name, std::vector<std::uint64_t> shape, InitKind init, double deviation,
             Cut how) {
    wire::TensorBox box = wire::whole_box(shape);
    if (how != Cut::None) {
      const std::size_t d = how == Cut::Rows ? 0 : 1;
      box.extent[d] = shape[d] / place_.tensor;
      box.first[d] = box.extent[d] * place_.tensor_rank;
    }
    add(std::move(name), std::move(shape), init, deviation, std::move(box), how == Cut::None);
  }

  void add_word(bool counts) {
    const VocabularyPart part =
        vocabulary_part(model_.vocabulary, place_.tensor, place_.tensor_rank);
    table_.word = table_.parameters.size();
    add("embedding.word", {model_.vocabulary, model_.hidden}, InitKind::Normal, model_.init_std,
        {{part.first, 0}, {part.rows, model_.hidden}}, false);
    table_.parameters.back().counts = counts;
  }

  void add_input() {
    add_word(true);
    table_.position = table_.parameters.size();
    split("embedding.position", {model_.sequence, model_.hidden}, InitKind::Normal, model_.init_std,
          Cut::None);
  }

  void norm(const std::string& name) {
    split(name + ".weight", {model_.hidden}, InitKind::One, 0, Cut::None);
    split(name + ".bias", {model_.hidden}, InitKind::Zero, 0, Cut::None);
  }

  void linear(const std::string& name, std::uint64_t out, std::uint64_t in, double deviation,
              Cut how) {
    split(name + ".weight", {out, in}, InitKind::Normal, deviation, how);
    split(name + ".bias", {out}, InitKind::Zero, 0, how == Cut::Rows ? Cut::Rows : Cut::None);
  }

  void add_block(std::uint64_t layer) {
    const double std = model_.init_std;
    const double out_std = std / std::sqrt(2.0 * static_cast<double>(model_.layers));
    const std::uint64_t h = model_.hidden;
    const std::string block = fmt::format("blocks.{}.", layer);
    table_.blocks[layer] = table_.parameters.size();
    norm(block + "norm1");
    linear(block + "attention.qkv", 3 * h, h, std, Cut::Rows);
    linear(block + "attention.out", h, h, out_std, Cut::Columns);
    norm(block + "norm2");
    linear(block + "mlp.in", model_.ffn, h, std, Cut::Rows);
    linear(block + "mlp.out", h, model_.ffn, out_std, Cut::Columns);
  }

  const recipe::ModelConfig& model_;
  const Placement& place_;
  ParameterTable table_;
};

}  // namespace

VocabularyPart vocabulary_part(std::uint64_t vocabulary, std::uint32_t tensor,
                               std::uint32_t tensor_rank) {
  if (tensor == 1) return {0, vocabulary};
  const std::uint64_t multiple = kVocabularyMultiple * tensor;
  const std::uint64_t each = (vocabulary + multiple - 1) / multiple * kVocabularyMultiple;
  const std::uint64_t first = std::min(vocabulary, each * tensor_rank);
  return {first, std::min(vocabulary, first + each) - first};
}

Placement whole_model(const recipe::ModelConfig& model) {
  return {1, 0, 1, {StagePart{0, 0, model.layers, {}}}};
}

Placement place_of_rank(const recipe::ModelConfig& model, const Mesh& mesh,
                        const std::vector<std::uint32_t>& rank_of_stage, std::uint32_t rank) {
  const auto layers = recipe::split_layers(model.layers, rank_of_stage.size());
  STOKER_CHECK(layers.has_value(), "the mesh was checked with the configuration");
  Placement place{
      mesh.tp, mesh.tensor_rank(rank), static_cast<std::uint32_t>(rank_of_stage.size()), {}};
  std::uint64_t at = 0;
  for (std::uint32_t stage = 0; stage < place.stages; ++stage) {
    if (rank_of_stage[stage] == mesh.pipe_rank(rank))
      place.parts.push_back({stage, at, (*layers)[stage], {}});
    at += (*layers)[stage];
  }
  return place;
}

std::uint64_t ParameterTable::scalars() const {
  std::uint64_t total = 0;
  for (const Parameter& p : parameters) total += p.count;
  return total;
}

ParameterTable ModelLayout::of_rank(std::uint32_t rank) const {
  return gpt_parameters(model, place_of_rank(model, mesh, rank_of_stage, rank));
}

ParameterTable ModelLayout::whole() const {
  return gpt_parameters(model, whole_model(model));
}

ParameterTable gpt_parameters(const recipe::ModelConfig& model, const Placement& placement) {
  return Builder(model, placement).build();
}

}  // namespace stoker::train
