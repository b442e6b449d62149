// Which checkpoint an attempt resumes from: what the search for it found.
#pragma once

#include <string>
#include <vector>

#include "wire/agent_event.hpp"
#include "wire/node_messages.hpp"

namespace stoker::lead {

struct HeldOn {  // in the memory of a node
  NodeName node;
  wire::HeldSnapshot snapshot;
};

// Where an attempt's state lies in memory: all of these nodes carry its ranks.
struct MemorySource {
  wire::SnapshotId id;
  std::vector<NodeName> nodes;
};

struct ChosenCheckpoint {
  std::string name;                              // directory name, "" = none is good: from scratch
  Iteration iteration;                           // 0 = from scratch
  std::vector<wire::DamagedCheckpoint> damaged;  // newer ones of the lineage
  std::string error;           // the directory cannot be read: nothing is known, "" = it was read
  std::vector<HeldOn> held{};  // what may be newer
};

}  // namespace stoker::lead
