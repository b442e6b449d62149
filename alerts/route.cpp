// Matching of labels.
#include "alerts/route.hpp"

#include <algorithm>

namespace stoker::alerts {

namespace {
constexpr Duration kDefaultRepeat = 4h;

bool matches(const core::RoutePolicy& route, const RenderedAlert& alert) {
  if (route.severity && alert.severity < *route.severity) return false;
  return std::all_of(route.match.begin(), route.match.end(), [&](const auto& wanted) {
    const auto label = alert.labels.find(wanted.first);
    return label != alert.labels.end() && label->second == wanted.second;
  });
}
}  // namespace

std::vector<Routed> route(const RenderedAlert& alert, const core::AlertPolicy& policy) {
  std::map<std::string, Duration> heard;
  const auto add = [&heard](const std::string& sink, Duration repeat) {
    const auto [at, inserted] = heard.try_emplace(sink, repeat);
    if (!inserted) at->second = std::min(at->second, repeat);
  };
  for (const auto& rule : policy.routes)
    if (matches(rule, alert))
      for (const auto& sink : rule.to) add(sink, rule.repeat);
  if (policy.routes.empty() && alert.severity >= core::Severity::Warning)
    for (const auto& sink : policy.sinks) add(sink.name, kDefaultRepeat);
  std::vector<Routed> out{{kPulseSink, kNoRepeat}};
  for (const auto& [sink, repeat] : heard) out.push_back({sink, repeat});
  return out;
}

}  // namespace stoker::alerts
