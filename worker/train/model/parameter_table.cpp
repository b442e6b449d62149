#include "worker/train/model/parameter_table.hpp"

#include <cmath>
#include <fmt/format.h>

namespace stoker::train {
namespace {

constexpr std::size_t kAlignment = 64;  // elements: cache lines, and what sharding by ranges likes

class Builder {
 public:
  void add(std::string name, std::vector<std::uint64_t> shape, InitKind init, double deviation) {
    std::size_t count = 1;
    for (const std::uint64_t extent : shape) count *= extent;
    table_.parameters.push_back(
        {std::move(name), std::move(shape), init, deviation, table_.flat_size, count});
    table_.flat_size = (table_.flat_size + count + kAlignment - 1) / kAlignment * kAlignment;
  }
  void norm(const std::string& name, std::uint64_t width) {
    add(name + ".weight", {width}, InitKind::One, 0);
    add(name + ".bias", {width}, InitKind::Zero, 0);
  }
  void linear(const std::string& name, std::uint64_t out, std::uint64_t in, double deviation) {
    add(name + ".weight", {out, in}, InitKind::Normal, deviation);
    add(name + ".bias", {out}, InitKind::Zero, 0);
  }
  ParameterTable take() { return std::move(table_); }

 private:
  ParameterTable table_;
};

}  // namespace

std::uint64_t ParameterTable::scalars() const {
  std::uint64_t total = 0;
  for (const Parameter& p : parameters) total += p.count;
  return total;
}

ParameterTable gpt_parameters(const recipe::ModelConfig& model) {
  const double std = model.init_std;
  const double out_std = std / std::sqrt(2.0 * static_cast<double>(model.layers));
  const std::uint64_t h = model.hidden;
  Builder build;
  build.add("embedding.word", {model.vocabulary, h}, InitKind::Normal, std);
  build.add("embedding.position", {model.sequence, h}, InitKind::Normal, std);
  for (std::uint64_t layer = 0; layer < model.layers; ++layer) {
    const std::string block = fmt::format("blocks.{}.", layer);
    build.norm(block + "norm1", h);
    build.linear(block + "attention.qkv", 3 * h, h, std);
    build.linear(block + "attention.out", h, h, out_std);
    build.norm(block + "norm2", h);
    build.linear(block + "mlp.in", model.ffn, h, std);
    build.linear(block + "mlp.out", h, model.ffn, out_std);
  }
  build.norm("final_norm", h);
  return build.take();
}

}  // namespace stoker::train
