// Resuming from a snapshot in memory: each rank finds its shard on its node, or gets it from a rank
// whose node has it. Nothing is taken that is not exactly what was copied.
#pragma once

#include "worker/train/checkpoint/position.hpp"
#include "worker/train/memory/snapshots.hpp"

namespace stoker::train {

struct Restored {
  wire::Manifest manifest;  // without tensors, ranges, files and digest
  Position position;
};

struct Wanted {
  wire::SnapshotId id;
  Generation generation;  // that restores it
};

// Collective: fails on all ranks alike, and says why; the state may then hold anything. When a peer
// was lost, `peer_lost` is set.
Result<Restored> restore_snapshot(Comm& comm, FlatState& state, Snapshots& snapshots,
                                  const Wanted& wanted, Duration deadline, bool& peer_lost);

}  // namespace stoker::train
