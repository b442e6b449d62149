// By the account that status, report and digest show.
#include "core/alerts/alert_facts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

#include "core/alerts/alert_kind.hpp"
#include "core/publish/forecast.hpp"
#include "core/publish/goodput.hpp"
#include "core/sentence.hpp"

namespace stoker::core {
namespace {

bool is_failure(const std::string& kind) {
  return std::any_of(kAlertKinds.begin(), kAlertKinds.end(),
                     [&](const AlertKindRow& row) { return row.failure && row.name == kind; });
}

bool is_over(const RunState& run) {
  return std::holds_alternative<training::Finished>(run.training) ||
         std::holds_alternative<training::Stopped>(run.training);
}

std::string minute(WallTime wall) {
  return format_rfc3339(wall).substr(11, 5) + " UTC";
}

// Of the failure that the run is in: since when, what will be repeated, what is lost so far.
std::string cost_so_far(const RunState& run) {
  const Incident& incident = *run.recovery.incident;
  const std::uint64_t reached = incident.iteration.value, kept = incident.checkpoint.value;
  std::string text = fmt::format("no training since {}", minute(incident.wall));
  if (reached > kept)
    text += fmt::format("; {} to repeat", count_text(reached - kept, "iteration"));
  if (run.accounting.goodput.incidents.empty()) return text;
  const IncidentCost& cost = run.accounting.goodput.incidents.back();
  const std::string lost = lost_so_far(run, cost.node_hours);
  return cost.since == incident.since && !lost.empty() ? text + "; " + lost : text;
}

// Of the failure that has just ended.
std::string cost_of_the_last(const RunState& run) {
  if (run.accounting.goodput.incidents.empty()) return "";
  const IncidentCost& cost = run.accounting.goodput.incidents.back();
  std::string text = fmt::format("{} without training, {}", format_duration(cost.time),
                                 hours_text(run, cost.node_hours));
  if (cost.repeated > 0)
    text += fmt::format("; {} are repeated now, which costs more: stoker status {}",
                        count_text(cost.repeated, "iteration"), run.policy.run.text);
  return text;
}

// Of the whole run.
std::string cost_of_all(const RunState& run) {
  const Duration all = whole(run.accounting.goodput);
  if (all <= 0ns) return "";
  return fmt::format("goodput {:.1f} % of {}; {} lost", 100 * ettr(run.accounting.goodput),
                     format_duration(all), hours_text(run, run.accounting.goodput.node_hours));
}

std::string impact_of(const SendAlert& alert, const RunState& run) {
  if (is_over(run)) return cost_of_all(run);
  if (!is_failure(alert.alert_kind)) return "";
  if (run.recovery.incident && !alert.resolved) return cost_so_far(run);
  const bool goes_on = std::holds_alternative<training::Training>(run.training);
  return alert.resolved && goes_on ? cost_of_the_last(run) : "";
}

std::string progress_of(const RunState& run, WallTime wall) {
  const Progress& p = run.health.progress;
  std::string text = fmt::format("{} at iteration {}", state_name(run.training), p.iteration.value);
  if (p.total > 0)
    text +=
        fmt::format(" of {} ({:.1f} %)", p.total,
                    100 * static_cast<double>(p.iteration.value) / static_cast<double>(p.total));
  if (p.loss) text += fmt::format(", loss {:.4g}", *p.loss);
  if (run.health.checkpoint.iteration.value != 0)
    text += fmt::format(", newest checkpoint {}", run.health.checkpoint.iteration.value);
  if (const auto forecast = forecast_of(run, wall))
    text += fmt::format(", about {} to the end", format_duration(from_seconds(forecast->left_s)));
  return text;
}

// The newest losses as a curve of block characters, which every mail program shows.
std::string curve_of(const std::vector<LossPoint>& losses) {
  constexpr std::array kLevels{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::size_t kShown = 30;
  std::vector<double> points;
  for (const LossPoint& point : losses)
    if (std::isfinite(point.loss)) points.push_back(point.loss);
  if (points.size() > kShown) points.erase(points.begin(), points.end() - kShown);
  if (points.size() < 2) return "";
  const auto [low, high] = std::minmax_element(points.begin(), points.end());
  std::string text;
  for (const double point : points) {
    const double share = *high > *low ? (point - *low) / (*high - *low) : 0;
    text +=
        kLevels.at(std::min(kLevels.size() - 1, static_cast<std::size_t>(share * kLevels.size())));
  }
  return fmt::format("{} {:.4g} to {:.4g}", text, points.front(), points.back());
}

}  // namespace

void add_facts(SendAlert& alert, const RunState& run, WallTime wall) {
  if (alert.alert_kind == "weekly_digest") return;  // its report has them
  alert.impact = impact_of(alert, run);
  alert.progress = progress_of(run, wall);
  alert.curve = curve_of(run.health.losses);
}

void add_facts(Decision& decision, const RunState& run, WallTime wall) {
  for (Action& action : decision.actions)
    if (auto* alert = std::get_if<SendAlert>(&action)) add_facts(*alert, run, wall);
}

}  // namespace stoker::core
