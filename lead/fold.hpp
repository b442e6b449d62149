// Folds the samples of all ranks into one Beat. Pure.
#pragma once

#include <limits>
#include <map>
#include <vector>

#include "wire/node_messages.hpp"

namespace stoker::lead {

struct NodeSamples {
  std::vector<wire::RankSample> ranks;
  std::uint64_t free_memory_bytes = 0, free_shm_bytes = 0;
  Instant taken_at{};
  std::int64_t age_ms = 0;  // since they were taken: added to their ages
  double gpu_watts = 0;
};

// `attempt_age_ms`: since the ranks were started; the progress age while no rank has reported.
// `awake_ms`: since the lead last stood still, and they with it; no age is greater, and an
// iteration that took longer was under way then: its duration is left out.
wire::Beat fold_beat(Attempt attempt, const std::map<NodeName, NodeSamples>& nodes,
                     std::int64_t attempt_age_ms,
                     std::int64_t awake_ms = std::numeric_limits<std::int64_t>::max());

}  // namespace stoker::lead
