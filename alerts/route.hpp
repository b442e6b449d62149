// Routing: which sinks receive an alert, and how often it is repeated there while it stays open.
// The pulse sink receives everything.
#pragma once

#include <string>
#include <vector>

#include "alerts/render.hpp"
#include "core/policy.hpp"

namespace stoker::alerts {

inline constexpr const char* kPulseSink = "pulse log";  // built in: <state>/pulse.log
inline constexpr Duration kNoRepeat = Duration::max();

struct Routed {
  std::string sink;  // a name of AlertPolicy::sinks, or kPulseSink
  Duration repeat = kNoRepeat;
  friend bool operator==(const Routed&, const Routed&) = default;
};

// Every route that matches counts: severity at least the route's, every label of `match` equal
// (labels of the alert, with kind, severity and run). A sink named by several gets the shortest
// repeat. With sinks but no routes, every sink receives warnings and worse. In order of sink names,
// the built-in pulse first.
std::vector<Routed> route(const RenderedAlert& alert, const core::AlertPolicy& policy);

}  // namespace stoker::alerts
