// Sentences about incidents.
#include "cli/show/incident_text.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "cli/show/render_status.hpp"
#include "common/printable.hpp"
#include "core/publish/goodput.hpp"

namespace stoker::cli {
namespace {

std::string line_of(const wire::StatusIncident& incident, Duration age) {
  return fmt::format("{} {} ago at iteration {}: {} lost, {} {} repeated, {}",
                     cause_words(printable(incident.kind)), format_duration(age),
                     with_commas(incident.iteration), seconds_text(incident.s),
                     with_commas(incident.repeated),
                     incident.repeated == 1 ? "iteration" : "iterations",
                     core::cost_text(incident.gpu_hours, incident.node_hours));
}

}  // namespace

std::string cause_words(const std::string& kind) {
  std::string words = kind;
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::vector<std::string> incident_lines(const wire::StatusDocument& status, WallTime now) {
  constexpr Duration kLately = 24h;
  constexpr std::size_t kShown = 3;
  std::vector<std::string> lines;
  if (!status.goodput) return lines;
  std::size_t recent = 0;
  const auto& all = status.goodput->incidents;
  for (auto incident = all.rbegin(); incident != all.rend(); ++incident) {
    const auto at = parse_rfc3339(incident->time);
    if (!at || now - *at > kLately) continue;
    if (++recent <= kShown) lines.push_back(line_of(*incident, std::max<Duration>(now - *at, 0ns)));
  }
  if (recent > kShown)
    lines.push_back(fmt::format("and {} more in the last day: stoker chronicle {}", recent - kShown,
                                printable(status.run)));
  return lines;
}

std::string to_do_line(const wire::StatusDocument& status) {
  if (!status.alerts.empty()) return "";
  if (status.state == "held") return "a person has to act: stoker why " + printable(status.run);
  return "nothing: no alert is open";
}

}  // namespace stoker::cli
