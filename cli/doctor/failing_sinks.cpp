// One small file, read whole.
#include "cli/doctor/failing_sinks.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/doctor/site_checks.hpp"
#include "cli/read/published.hpp"

namespace stoker::cli {

Result<std::vector<wire::FailingSink>> failing_sinks(const std::string& state) {
  return published_document<std::vector<wire::FailingSink>>(state, "sinks.json");
}

std::string failing_line(const wire::FailingSink& sink) {
  std::string text = fmt::format("sink {} ({}) of {} does not deliver since {}: {}", sink.sink,
                                 sink.kind, sink.run, sink.since, sink.why);
  if (!sink.lost.empty()) text += fmt::format("; not taken: {}", fmt::join(sink.lost, "; "));
  return printable(text);
}

Finding judge_sink(const wire::FailingSink& sink, WallTime now) {
  const auto since = parse_rfc3339(sink.since);
  const bool lasting = !since || now - *since >= 1min;
  return {"alerts", !sink.lost.empty() || lasting ? Health::Bad : Health::Note, failing_line(sink),
          "fix the sink in RUN.yaml or at the receiver, then: stoker alerts test"};
}

std::vector<Finding> check_sinks(const Context& context) {
  const auto sinks = failing_sinks(context.state);
  if (!sinks) return {{"alerts", Health::Note, sinks.error().message(), "stoker alerts test"}};
  std::vector<Finding> findings;
  for (const wire::FailingSink& sink : *sinks) findings.push_back(judge_sink(sink, wall_now()));
  return findings;
}

}  // namespace stoker::cli
