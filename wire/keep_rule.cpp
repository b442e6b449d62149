// The choice of checkpoints.keep.
#include "wire/keep_rule.hpp"

#include <algorithm>

namespace stoker::wire {

std::vector<CheckpointId> choose_prunable(std::vector<SurveyedCheckpoint> complete,
                                          const KeepRule& rule,
                                          const std::set<CheckpointId>& in_use) {
  std::vector<CheckpointId> chosen;
  if (rule.last == 0 || complete.empty()) return chosen;
  std::sort(complete.begin(), complete.end(),
            [](const auto& a, const auto& b) { return a.id > b.id; });
  if (!complete.front().good) return chosen;
  std::uint32_t good = 0;
  for (const SurveyedCheckpoint& c : complete) {
    if (!c.good || good++ < rule.last) continue;
    const std::uint64_t iteration = c.id.iteration.value;
    const bool pinned = std::find(rule.pin.begin(), rule.pin.end(), iteration) != rule.pin.end();
    const bool regular = rule.every > 0 && iteration % rule.every == 0;
    const bool followed = std::any_of(rule.follow.begin(), rule.follow.end(),
                                      [&](const FollowRule& f) { return keeps(f, iteration); });
    if (!pinned && !regular && !followed && !in_use.contains(c.id)) chosen.push_back(c.id);
  }
  std::reverse(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace stoker::wire
