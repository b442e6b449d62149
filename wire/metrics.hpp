// The text of /metrics and of `stoker metrics`, in Prometheus's text form 0.0.4 or as OpenMetrics
// 1.0. What `status` knows of each run, and the daemon's own health; no label has a value a rank,
// so 16,384 ranks are as many series as one. To add a metric: its line in metrics.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wire/health.hpp"
#include "wire/sinks.hpp"
#include "wire/status.hpp"

namespace stoker::wire {

enum class MetricsForm { Text, OpenMetrics };

// Which form an Accept header asks for; the text form unless OpenMetrics is preferred.
MetricsForm metrics_form(std::string_view accept);
const char* content_type_of(MetricsForm form);

struct MetricsInput {
  const std::vector<StatusDocument>& runs;
  const std::vector<PublishedNode>& nodes;
  const std::vector<StatusAlert>& alerts;  // of no run
  const std::vector<FailingSink>& failing;
  const DaemonHealth& health;
  bool up = true;  // the daemon answers and can write its journal
};
std::string metrics_text(const MetricsInput& input, MetricsForm form);

// A label's value: backslash, quote and newline escaped.
std::string escape_label(std::string_view text);

}  // namespace stoker::wire
