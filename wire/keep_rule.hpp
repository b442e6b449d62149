// Which old checkpoints may go (checkpoints.keep): the pure choice, all of it on the side of
// keeping. The lead agent of a running generation makes it (worker/agent), the simulator's too.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "wire/lineage.hpp"
#include "wire/orders.hpp"

namespace stoker::wire {

struct KeepRule {
  std::uint32_t last = 0;  // 0 = nothing is deleted
  std::uint64_t every = 0;
  std::vector<std::uint64_t> pin;
  std::vector<FollowRule> follow = {};
};

struct SurveyedCheckpoint {
  CheckpointId id;
  bool good = false;  // complete and, as deep as verification goes, undamaged
};

// What may go, oldest first. `complete`: all complete checkpoints of the lineage in any order.
// Never the `last` newest good ones, a multiple of `every`, a pinned iteration, one that a follower
// is to be run on, or one in use; nothing at all when the newest is damaged. Damaged ones are left
// alone.
std::vector<CheckpointId> choose_prunable(std::vector<SurveyedCheckpoint> complete,
                                          const KeepRule& rule,
                                          const std::set<CheckpointId>& in_use);

}  // namespace stoker::wire
