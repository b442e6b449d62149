// What the lead knows of snapshots in the memory of nodes (checkpoint.memory).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/time.hpp"
#include "lead/checkpoint.hpp"
#include "wire/lineage.hpp"

namespace stoker::lead {

// The search for the resume point of the next attempt: on the disk, and in memory.
struct Search {
  std::set<NodeName> waiting;  // have not said what they hold
  std::vector<HeldOn> held;
  std::optional<ChosenCheckpoint> disk;
  Instant until;  // then it goes on without those that have not answered
};

// Snapshots of an attempt count through this iteration: a later attempt has begun there. Those of
// an attempt that is missing count for nothing.
using SnapshotBounds = std::map<Attempt, Iteration>;

}  // namespace stoker::lead
