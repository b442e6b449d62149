// Routing: which sinks receive an alert, with which others it is grouped there, and how often it is
// repeated while it stays open. The pulse sink receives everything at once.
#pragma once

#include <string>
#include <vector>

#include "alerts/render.hpp"
#include "core/alerts/alert_policy.hpp"

namespace stoker::alerts {

// Goes to the sinks of alerts.digest at its hour: no route, group or quiet hour is asked.
inline constexpr const char* kDigestKind = "weekly_digest";
inline constexpr const char* kPulseSink = "pulse log";  // built in: <state>/pulse.log
inline constexpr Duration kNoRepeat = Duration::max();

struct Routed {
  std::string sink;  // a name of AlertPolicy::sinks, or kPulseSink
  Duration repeat = kNoRepeat;
  Duration wait{};         // for others of its group
  std::string group = {};  // one text for all alerts that a message may hold; "" = by itself
  friend bool operator==(const Routed&, const Routed&) = default;
};

// The value of a label of the alert; "" = it has none. `node` is its subject, where that is one.
std::string label_of(const std::map<std::string, std::string>& labels, const std::string& name);
bool labels_match(const core::LabelMatch& wanted, const std::map<std::string, std::string>& labels);

// Every route that matches counts: severity at least the route's, every label of `match` equal
// (labels of the alert, with kind, severity and run). A sink named by several gets the shortest
// repeat and wait. With sinks but no routes, every sink receives warnings and worse. In order of
// sink names, the built-in pulse first.
std::vector<Routed> route(const RenderedAlert& alert, const core::AlertPolicy& policy);

}  // namespace stoker::alerts
