// The level is part of the state, so that each is reported once.
#include "core/publish/spend.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/publish/forecast.hpp"
#include "core/publish/goodput.hpp"
#include "core/sentence.hpp"

namespace stoker::core {
namespace {

constexpr std::uint32_t kWarn = 80, kSpent = 100;  // percent

// 1,234.5; whole numbers above a thousand.
std::string hours(double value) {
  std::string text = value < 1000 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
  const auto point = std::min(text.find('.'), text.size());
  for (std::size_t at = point; at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

std::uint32_t level_of(const RunState& run) {
  const double budget = run.policy.budget.gpu_hours;
  const bool over = std::holds_alternative<training::Finished>(run.training) ||
                    std::holds_alternative<training::Stopped>(run.training);
  if (budget <= 0 || over) return 0;
  const double spent =
      run.accounting.goodput.all_node_hours * run.policy.scheduler.gpus_per_node.value_or(0);
  return spent >= budget ? kSpent : spent >= budget * kWarn / 100 ? kWarn : 0;
}

}  // namespace

std::optional<bool> Spend::suffices() const {
  if (budget <= 0 || !left) return std::nullopt;
  return gpu_hours + *left <= budget;
}

std::optional<Spend> spend_of(const RunState& run, WallTime wall) {
  const double gpus = run.policy.scheduler.gpus_per_node.value_or(0);
  if (gpus <= 0) return std::nullopt;
  Spend spend{run.accounting.goodput.all_node_hours * gpus, run.policy.budget.gpu_hours, {}};
  const auto forecast = forecast_of(run, wall);
  if (forecast && run.live)  // no GPU is held in the queue; starts are part of its waits too
    spend.left = (forecast->left_s - forecast->waits_s) / 3600 * gpus *
                 static_cast<double>(run.live->nodes.size());
  return spend;
}

std::string spend_text(const Spend& spend) {
  if (spend.budget <= 0) return fmt::format("{} GPU hours", hours(spend.gpu_hours));
  std::string text = fmt::format("{} of {} GPU hours ({:.1f} %)", hours(spend.gpu_hours),
                                 hours(spend.budget), 100 * spend.gpu_hours / spend.budget);
  if (!spend.left) return text;
  text += fmt::format("; the forecast needs {} more: ", hours(*spend.left));
  const double missing = spend.gpu_hours + *spend.left - spend.budget;
  return text + (missing <= 0 ? "it suffices" : fmt::format("{} are missing", hours(missing)));
}

void watch_spend(Turn& turn) {
  RunState& run = turn.r();
  const std::uint32_t level = level_of(run);
  if (level == run.accounting.spend_level) return;
  const bool more = level > run.accounting.spend_level;
  run.accounting.spend_level = level;
  if (!more) resolve(turn, "gpu_budget");
  if (level == 0) return;
  const auto spend = spend_of(run, turn.event.wall);
  if (!spend) return;
  const std::string text = fmt::format("budget: {}", spend_text(*spend));
  if (more) turn.say(text + (level == kSpent ? "; stoker goes on" : ""));
  const std::string stop = "--after-checkpoint --reason \"budget\"";
  raise(turn, {level == kSpent ? Severity::Critical : Severity::Warning, "gpu_budget",
               fmt::format("{}: {} % of the budget is spent: {} of {} GPU hours", turn.name().text,
                           level, hours(spend->gpu_hours), hours(spend->budget)),
               level == kSpent ? command_text(turn.name(), "stop", stop.c_str())
                               : command_text(turn.name(), "status"),
               ""});
}

}  // namespace stoker::core
