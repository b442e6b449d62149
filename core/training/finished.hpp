// Finished: the training reached its end. Queued tasks are cancelled; nothing more is submitted.
#pragma once

#include "common/json.hpp"

namespace stoker::core::training {

struct Finished {
  static constexpr const char* kKind = "finished";
  Iteration iteration;
  STOKER_FIELDS(Finished, iteration)
};

}  // namespace stoker::core::training
