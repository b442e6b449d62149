// Whether a node may carry ranks, one that was excluded or a new one: a short test on it and on
// some of the others at once, figure by figure against the median of the others. The test finds a
// node that is broken or clocked down, not one that is slow by a few percent: for that there is the
// search over starts (core/nodes/bisect). Where every node does badly no node is accused.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/ids.hpp"

namespace stoker::recipe {

using NodeFigures = std::map<std::string, double>;  // name -> value, more is better

struct PoorFigure {
  NodeName node;
  std::string figure;  // "" = the node did not finish the test, though the others did
  double value = 0, usual = 0, limit = 0;
};

// Others that must have answered before anybody is compared with them.
inline constexpr std::size_t kLeastPeers = 2;

bool is_among(const std::vector<NodeName>& nodes, const NodeName& node);

// The tested nodes that did badly, the worst figure of each. `figures`: of all that answered. Where
// all of them are tested, each is compared with the rest.
std::vector<PoorFigure> judge_bench(const std::vector<NodeName>& tested,
                                    const std::map<NodeName, NodeFigures>& figures);

// "gemm_f32 33, 33 % of the others' median 100; 50 is the limit", "did not finish its test".
std::string bench_text(const PoorFigure& poor);

}  // namespace stoker::recipe
