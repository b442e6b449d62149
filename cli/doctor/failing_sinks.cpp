// One small file, read whole.
#include "cli/doctor/failing_sinks.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/doctor/site_checks.hpp"
#include "common/os/files.hpp"

namespace stoker::cli {

Result<std::vector<wire::FailingSink>> failing_sinks(const std::string& state) {
  const std::string path = state + "/published/sinks.json";
  if (!os::exists(path)) return std::vector<wire::FailingSink>{};
  STOKER_TRY(text, os::read_file(path, 8u << 20));
  return from_json_text<std::vector<wire::FailingSink>>(text, path);
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
