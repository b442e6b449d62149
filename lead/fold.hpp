// Folds the samples of all ranks into one Beat. Pure.
#pragma once

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
wire::Beat fold_beat(Attempt attempt, const std::map<NodeName, NodeSamples>& nodes,
                     std::int64_t attempt_age_ms);

}  // namespace stoker::lead
