// Suspect: something has stopped, and the verdict waits for evidence: the stacks of a hang (with a
// bound), or a lead agent that may speak again.
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"

namespace stoker::core::training {

enum class Symptom { Hang, LeadSilent };

}  // namespace stoker::core::training

template <>
struct stoker::EnumNames<stoker::core::training::Symptom> {
  static constexpr std::array names{"hang", "lead_silent"};
};

namespace stoker::core::training {

struct Suspect {
  static constexpr const char* kKind = "suspect";
  Symptom symptom = Symptom::Hang;
  std::string evidence;
  std::vector<NodeName> nodes;  // of the silent ranks when few are silent; else empty
  bool iterating = false;       // it was Training before, not Starting
  Instant act_at;               // no later than this
  std::uint64_t stacks = 0;     // counter of the stacks that were asked for
  STOKER_FIELDS(Suspect, symptom, evidence, nodes, iterating, act_at, stacks)
};

}  // namespace stoker::core::training
