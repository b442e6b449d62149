// Held: a person is needed, or space on a disk. Nothing is submitted. Ends with `resume`, or by
// itself where the reason can pass (a full disk is tried again with growing pauses).
#pragma once

#include <optional>
#include <string>

#include "common/json.hpp"

namespace stoker::core::training {

struct Held {
  static constexpr const char* kKind = "held";
  std::string alert_kind;  // crash_loop configuration checkpoint_refused disk_full …
  std::optional<Instant> retry_at;
  STOKER_FIELDS(Held, alert_kind, retry_at)
};

}  // namespace stoker::core::training
