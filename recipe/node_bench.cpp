#include "recipe/node_bench.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>

namespace stoker::recipe {
namespace {

// The share of the others' median below which a figure convicts. Processors and memory of one
// partition are alike within a few percent; what a shared disk gives in a second is not.
struct Share {
  const char* figure;
  double least;
};
constexpr Share kShares[] = {
    {"gemm_f32", 0.5}, {"memory_copy", 0.5}, {"disk_write", 0.05}, {"disk_read", 0.05}};

std::optional<double> figure_of(const NodeFigures& figures, const std::string& name) {
  const auto found = figures.find(name);
  if (found == figures.end() || !std::isfinite(found->second) || found->second <= 0) return {};
  return found->second;
}

std::optional<double> median(std::vector<double> values) {
  if (values.size() < kLeastPeers) return {};
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];  // the lower one: in doubt for the node
}

struct Others {
  std::size_t count = 0;
  std::map<std::string, std::vector<double>> values;  // of each figure
};

Others others_of(const std::vector<NodeName>& judged,
                 const std::map<NodeName, NodeFigures>& figures) {
  Others others;
  for (const auto& [node, values] : figures) {
    if (is_among(judged, node)) continue;
    ++others.count;
    for (const Share& share : kShares)
      if (const auto value = figure_of(values, share.figure))
        others.values[share.figure].push_back(*value);
  }
  return others;
}

bool are_all(const std::vector<NodeName>& tested, const std::map<NodeName, NodeFigures>& figures) {
  return std::all_of(figures.begin(), figures.end(),
                     [&](const auto& one) { return is_among(tested, one.first); });
}

}  // namespace

bool is_among(const std::vector<NodeName>& nodes, const NodeName& node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

std::vector<PoorFigure> judge_bench(const std::vector<NodeName>& tested,
                                    const std::map<NodeName, NodeFigures>& figures) {
  const bool all_are = are_all(tested, figures);
  std::vector<PoorFigure> poor;
  for (const NodeName& node : tested) {
    Others others = others_of(all_are ? std::vector<NodeName>{node} : tested, figures);
    if (others.count < kLeastPeers) continue;
    const auto own = figures.find(node);
    if (own == figures.end()) {
      poor.push_back({node, "", 0, 0, 0});
      continue;
    }
    std::optional<PoorFigure> worst;
    double depth = 1;  // value against what is just enough
    for (const Share& share : kShares) {
      const auto value = figure_of(own->second, share.figure);
      const auto usual = median(others.values[share.figure]);
      if (!value || !usual || *value >= share.least * *usual) continue;
      if (*value / (share.least * *usual) >= depth) continue;
      depth = *value / (share.least * *usual);
      worst = PoorFigure{node, share.figure, *value, *usual, share.least * *usual};
    }
    if (worst) poor.push_back(*worst);
  }
  return poor;
}

std::string bench_text(const PoorFigure& poor) {
  if (poor.figure.empty()) return "did not finish its test though the others did";
  return fmt::format("{} {:.3g}, {:.0f} % of the others' median {:.3g}; {:.3g} is the limit",
                     poor.figure, poor.value, 100 * poor.value / poor.usual, poor.usual,
                     poor.limit);
}

}  // namespace stoker::recipe
