// What a person on call must see first.
#include "daemon/http/overview.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace stoker::daemon {
namespace {

// Of an alert that is open; one that was acknowledged is not urgent.
Level alert_level(const wire::StatusAlert& alert) {
  if (alert.severity == "critical") return alert.acknowledged ? Level::Warning : Level::Critical;
  return alert.severity == "warning" && !alert.acknowledged ? Level::Warning : Level::Ok;
}

std::string count_text(std::size_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string site_sentence(Level level, const SiteView& view) {
  if (!view.health.journal_trouble.empty())
    return "stoker does nothing: it cannot write its journal (" + view.health.journal_trouble + ")";
  std::size_t need = 0, troubled = 0, fine = 0;
  for (const auto& run : view.runs) {
    const Level its = level_of(run);
    need += its == Level::Critical ? 1 : 0;
    troubled += its == Level::Warning ? 1 : 0;
    fine += its == Level::Ok ? 1 : 0;
  }
  if (view.runs.empty()) return "no run is under supervision";
  if (need > 0) return count_text(need, "run needs a person", "runs need a person");
  if (troubled > 0)
    return count_text(troubled, "run has trouble that stoker handles",
                      "runs have trouble that stoker handles");
  if (!view.failing.empty()) return "alerts do not reach all of their receivers";
  if (!view.health.scheduler_trouble.empty()) return "the scheduler gives no usable answers";
  if (level != Level::Ok && level != Level::Over) return "there are open alerts of the site";
  return fine == 0 ? "no run is active" : "all is well";
}

}  // namespace

Level level_of(const wire::StatusDocument& run) {
  if (run.state == "finished" || run.state == "stopped") return Level::Over;
  Level level = run.state == "held" ? Level::Critical : Level::Ok;
  if (run.state == "suspect" || run.state == "recovering") level = Level::Warning;
  for (const std::string& condition : run.conditions) {
    if (condition == "journal_stuck") level = Level::Critical;
    if (condition != "paused") level = std::min(level, Level::Warning);
  }
  for (const auto& alert : run.alerts) level = std::min(level, alert_level(alert));
  return level;
}

Json overview(const SiteView& view) {
  Level worst = view.health.journal_trouble.empty() ? Level::Over : Level::Critical;
  if (!view.failing.empty() || !view.health.scheduler_trouble.empty())
    worst = std::min(worst, Level::Warning);
  for (const auto& alert : view.alerts) worst = std::min(worst, alert_level(alert));
  std::vector<std::pair<Level, const wire::StatusDocument*>> order;
  for (const auto& run : view.runs) {
    order.emplace_back(level_of(run), &run);
    worst = std::min(worst, order.back().first);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Json runs = Json::array();
  for (const auto& [level, run] : order) {
    Json entry(*run);
    entry["level"] = std::string(name_of(level));
    runs.push_back(std::move(entry));
  }
  constexpr std::size_t kNamesShown = 5;
  std::size_t out = 0;
  Json names = Json::array();
  for (const auto& node : view.nodes) {
    if (node.state == "ok") continue;
    if (++out <= kNamesShown) names.push_back(node.node + " " + node.state);
  }
  if (out > kNamesShown) names.push_back(fmt::format("and {} more", out - kNamesShown));
  return {{"level", std::string(name_of(worst))},
          {"sentence", site_sentence(worst, view)},
          {"runs", std::move(runs)},
          {"alerts", view.alerts},
          {"failing", view.failing},
          {"held", view.held},
          {"nodes_out", out},
          {"nodes_out_names", std::move(names)},
          {"health", view.health}};
}

}  // namespace stoker::daemon
