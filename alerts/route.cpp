// Matching of labels.
#include "alerts/route.hpp"

#include <algorithm>

namespace stoker::alerts {

namespace {
constexpr Duration kDefaultRepeat = 4h;

bool value_matches(std::string_view wanted, const std::string& value) {
  if (wanted == "*") return !value.empty();
  for (std::size_t begin = 0; begin <= wanted.size();) {
    const std::size_t end = std::min(wanted.find('|', begin), wanted.size());
    if (wanted.substr(begin, end - begin) == value) return true;
    begin = end + 1;
  }
  return false;
}

std::string group_key(const core::GroupRule& rule, const RenderedAlert& alert) {
  Json key = Json::array();
  for (const std::string& label : rule.by) {
    if (label == "...") return "";
    key.push_back({label, label_of(alert.labels, label)});
  }
  return dump_json(key);
}
}  // namespace

std::string label_of(const std::map<std::string, std::string>& labels, const std::string& name) {
  auto found = labels.find(name);
  if (found == labels.end() && name == "node") found = labels.find("subject");
  return found == labels.end() ? "" : found->second;
}

bool labels_match(const core::LabelMatch& wanted,
                  const std::map<std::string, std::string>& labels) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& pair) {
    return value_matches(pair.second, label_of(labels, pair.first));
  });
}

std::vector<Routed> route(const RenderedAlert& alert, const core::AlertPolicy& policy) {
  if (alert.kind == kDigestKind) {
    std::vector<Routed> out{{kPulseSink, kNoRepeat}};
    for (const std::string& sink : policy.digest.value_or(core::DigestRule{}).to)
      out.push_back({sink, kNoRepeat});
    return out;
  }
  std::map<std::string, Routed> heard;
  const auto add = [&](const std::string& sink, Duration repeat, const core::GroupRule& group) {
    const Routed routed{sink, repeat, group.wait, group_key(group, alert)};
    const auto [at, inserted] = heard.try_emplace(sink, routed);
    if (inserted) return;
    at->second.repeat = std::min(at->second.repeat, repeat);
    if (group.wait < at->second.wait) {
      at->second.wait = group.wait;
      at->second.group = routed.group;
    }
  };
  for (const core::RoutePolicy& rule : policy.routes) {
    if ((rule.severity && alert.severity < *rule.severity) ||
        !labels_match(rule.match, alert.labels))
      continue;
    for (const auto& sink : rule.to) add(sink, rule.repeat, rule.group);
  }
  if (policy.routes.empty() && alert.severity >= core::Severity::Warning)
    for (const auto& sink : policy.sinks) add(sink.name, kDefaultRepeat, policy.group);
  std::vector<Routed> out{{kPulseSink, kNoRepeat}};
  for (auto& [sink, routed] : heard) out.push_back(std::move(routed));
  return out;
}

}  // namespace stoker::alerts
