// Decision: what the decider makes of one event: the new state, the effects to perform and the
// reason, one sentence with its evidence in numbers. `stoker why`, alerts and the chronicle print
// that same sentence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/action.hpp"

namespace stoker::core {

struct Decision {
  std::string from,
      to;  // names of the training state of event.run before and after; "" for a site event
  std::string reason;           // "" only when nothing changed that a person would ask about
  std::vector<Action> actions;  // in the order in which they are performed
  bool rejected = false;        // an event that is impossible here: noted, alerted, nothing done
  STOKER_FIELDS(Decision, from, to, reason, actions, rejected)
};

}  // namespace stoker::core

STOKER_JSON_ONCE(stoker::core::Decision)
