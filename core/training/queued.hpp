// Queued: a submission exists or is being made, no job of it runs. Waiting has no limit of its own:
// queues of days are normal.
#pragma once

#include <optional>
#include <string>

#include "common/json.hpp"

namespace stoker::core::training {

struct Queued {
  static constexpr const char* kKind = "queued";
  std::optional<Instant> submit_at;  // a submission failed: the next try
  // After a lost node: what the checkpoint tree looked like last; "" = it was not considered yet.
  std::optional<std::string> tree = {};
  std::string refused = {};  // why the scheduler rejected the last submission; "" = it did not
  STOKER_FIELDS(Queued, submit_at, tree, refused)
};

}  // namespace stoker::core::training
