// <state>/published/sinks.json: the sinks that do not deliver, one entry a run and sink. The daemon
// replaces it; `stoker alerts`, `status` and `doctor` read it. Empty: all that was sent arrived.
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"

namespace stoker::wire {

struct FailingSink {
  std::string run, sink, kind;
  std::string since;  // RFC 3339, the first failure in a row
  std::string why;    // the last one
  std::uint32_t failures = 0;
  std::vector<std::string> lost;  // titles of alerts that it refused, or that were given up
  STOKER_FIELDS(FailingSink, run, sink, kind, since, why, failures, lost)
};

}  // namespace stoker::wire
