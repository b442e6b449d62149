// Idle: under supervision, nothing submitted. A run is idle before its first submission, and while
// it is paused with nothing left in the queue.
#pragma once

#include "common/json.hpp"

namespace stoker::core::training {

struct Idle {
  static constexpr const char* kKind = "idle";
  STOKER_NO_FIELDS(Idle)
};

}  // namespace stoker::core::training
