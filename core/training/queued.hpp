// Queued: a submission exists or is being made, no job of it runs. Waiting has no limit of its own:
// queues of days are normal.
#pragma once

#include <optional>

#include "common/json.hpp"

namespace stoker::core::training {

struct Queued {
  static constexpr const char* kKind = "queued";
  std::optional<Instant> submit_at;  // a submission failed: the next try
  STOKER_FIELDS(Queued, submit_at)
};

}  // namespace stoker::core::training
