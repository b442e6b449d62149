// Starting: a job of ours runs, its ranks have not completed an iteration in this attempt. Ends
// with the first iteration, a failure, or the deadline of the phase that the ranks are in.
#pragma once

#include "common/json.hpp"

namespace stoker::core::training {

struct Starting {
  static constexpr const char* kKind = "starting";
  Instant silent_since;  // last report of the agents, or the start of the job
  STOKER_FIELDS(Starting, silent_since)
};

}  // namespace stoker::core::training
