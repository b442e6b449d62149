// Which checkpoint an attempt resumes from: what the search for it found.
#pragma once

#include <string>
#include <vector>

#include "wire/agent_event.hpp"

namespace stoker::lead {

struct ChosenCheckpoint {
  std::string name;                              // directory name, "" = none is good: from scratch
  Iteration iteration;                           // 0 = from scratch
  std::vector<wire::DamagedCheckpoint> damaged;  // newer ones of the lineage
  std::string error;  // the directory cannot be read: nothing is known, "" = it was read
};

}  // namespace stoker::lead
