// <state>/published/held.json: what has not been sent to a sink, by which rule and until when. The
// daemon replaces it; `stoker alerts` reads it.
#pragma once

#include <string>

#include "common/json.hpp"

namespace stoker::wire {

struct HeldAlert {
  std::string id;     // of the alert
  std::string sink;   // "" = all of its sinks
  std::string rule;   // "quiet hours", "silence s12 of alice (kind=hang)", …
  std::string until;  // RFC 3339; "" = until its cause is over
  STOKER_FIELDS(HeldAlert, id, sink, rule, until)
};

}  // namespace stoker::wire
