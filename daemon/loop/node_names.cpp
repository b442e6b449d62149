#include "daemon/loop/node_names.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/hostlist.hpp"
#include "configs/schema/yaml_scalars.hpp"

namespace stoker::daemon {
namespace {

constexpr std::size_t kMostNear = 3, kMostText = 120;

// "n01, n02" when some look like it, else all that there are, cut.
std::string near_text(const std::string& name, const std::set<NodeName>& known) {
  std::vector<std::string> left, near;
  for (const NodeName& node : known) left.push_back(node.text);
  while (near.size() < kMostNear) {
    const std::string next = configs::nearest_name(name, left);
    if (next.empty()) break;
    near.push_back(next);
    left.erase(std::find(left.begin(), left.end(), next));
  }
  if (!near.empty()) return fmt::format("near: {}", fmt::join(near, ", "));
  std::string all = compress_hostlist({known.begin(), known.end()});
  if (all.size() > kMostText) all = all.substr(0, kMostText) + "…";
  return "there are " + all;
}

}  // namespace

NamesJudged judge_names(const std::vector<NodeName>& asked,
                        const std::vector<Result<std::set<NodeName>>>& answers) {
  std::set<NodeName> known;
  std::string unanswered = answers.empty() ? "no run is supervised" : "";
  for (const auto& answer : answers)
    if (answer)
      known.insert(answer->begin(), answer->end());
    else
      unanswered = answer.error().message();
  std::vector<std::string> unknown;
  for (const NodeName& node : asked)
    if (!known.contains(node)) unknown.push_back(node.text);
  if (unknown.empty()) return {};
  const std::string more =
      unknown.size() == 1 ? "" : fmt::format(" (and {} more)", unknown.size() - 1);
  if (!unanswered.empty())
    return {"", fmt::format("{}{} could not be looked up: {}", unknown.front(), more, unanswered)};
  return {fmt::format("there is no node {}{}; {}", unknown.front(), more,
                      near_text(unknown.front(), known)),
          ""};
}

}  // namespace stoker::daemon
