// Differences between the account now and the one at the last digest.
#include "core/publish/weekly.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

#include "core/alerts/alerting.hpp"
#include "core/handlers.hpp"
#include "core/publish/forecast.hpp"
#include "core/publish/goodput.hpp"
#include "core/publish/spend.hpp"
#include "core/sentence.hpp"

namespace stoker::core {
namespace {

constexpr Duration kDay = 24h, kWeek = 7 * kDay;
constexpr std::size_t kIncidentsShown = 10, kNodesShown = 12;

std::string minute(WallTime wall) {
  std::string text = format_rfc3339(wall).substr(0, 16);
  text[10] = ' ';
  return text;
}

// What changed since the last digest.
struct Week {
  std::map<std::string, Duration> spent;
  std::map<std::string, CauseCost> costs;
  double node_hours = 0, all_node_hours = 0;
  std::uint64_t iterations = 0;
  std::uint32_t incidents = 0;
  Duration whole{};  // without what a person had it stopped
};

Week week_of(const RunState& run) {
  const WeeklyMark& mark = run.accounting.weekly;
  const Goodput& g = run.accounting.goodput;
  Week week;
  for (const auto& [cause, time] : g.spent) {
    const auto before = mark.spent.find(cause);
    const Duration since = time - (before == mark.spent.end() ? Duration{} : before->second);
    if (since <= 0ns) continue;
    week.spent[cause] = since;
    if (cause != "held") week.whole += since;
  }
  for (const auto& [cause, cost] : g.costs) {
    const auto found = mark.costs.find(cause);
    const CauseCost before = found == mark.costs.end() ? CauseCost{} : found->second;
    const CauseCost since{cost.times - std::min(cost.times, before.times), cost.time - before.time,
                          cost.node_hours - before.node_hours};
    if (since.times == 0 && since.time <= 0ns) continue;
    week.costs[cause] = since;
    week.incidents += since.times;
  }
  week.node_hours = g.node_hours - mark.node_hours;
  week.all_node_hours = g.all_node_hours - mark.all_node_hours;
  week.iterations = g.reached.value - std::min(g.reached.value, mark.iteration.value);
  return week;
}

double share(const Week& week, const std::string& cause) {
  const auto found = week.spent.find(cause);
  if (found == week.spent.end() || week.whole <= 0ns) return 0;
  return 100 * to_seconds(found->second) / to_seconds(week.whole);
}

// The largest first.
template <class Map, class Value>
std::vector<std::string> by_size(const Map& map, const Value& value) {
  std::vector<std::string> names;
  for (const auto& [name, entry] : map) names.push_back(name);
  std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return value(map.at(a)) > value(map.at(b));
  });
  return names;
}

std::string words(std::string kind) {
  std::replace(kind.begin(), kind.end(), '_', ' ');
  return kind;
}

std::string time_line(const Week& week) {
  if (week.whole <= 0ns) return "Time: it was not under way.\n";
  std::string text = fmt::format("Time: {:.1f} % of {} in iterations that were kept",
                                 share(week, "train"), format_duration(week.whole));
  for (const std::string& cause : by_size(week.spent, [](Duration d) { return d; }))
    if (cause != "train" && cause != "held")
      text += fmt::format(", {} {:.1f} %", words(cause), share(week, cause));
  if (const auto held = week.spent.find("held"); held != week.spent.end())
    text += fmt::format("; on hold or stopped for {}", format_duration(held->second));
  return text + ".\n";
}

std::string lost_line(const RunState& run, const Week& week) {
  if (week.costs.empty()) return "Lost: nothing.\n";
  std::string text;
  for (const std::string& cause : by_size(week.costs, [](const CauseCost& c) { return c.time; })) {
    const CauseCost& cost = week.costs.at(cause);
    text += fmt::format("{}{}{} {}", text.empty() ? "" : ", ", words(cause),
                        cost.times == 0 ? "" : fmt::format(" ({} x)", cost.times),
                        format_duration(cost.time));
  }
  return fmt::format("Lost: {}: {}.\n", hours_text(run, week.node_hours), text);
}

std::string incident_lines(const RunState& run) {
  std::vector<const IncidentCost*> shown;
  for (const IncidentCost& incident : run.accounting.goodput.incidents)
    if (incident.wall >= run.accounting.weekly.made) shown.push_back(&incident);
  if (shown.empty()) return "Incidents: none.\n";
  std::string text = "Incidents, newest first:\n";
  for (auto it = shown.rbegin(); it != shown.rend(); ++it) {
    if (it - shown.rbegin() == kIncidentsShown)
      return text + fmt::format("  and {} more\n", shown.size() - kIncidentsShown);
    const IncidentCost& i = **it;
    text += fmt::format("  {} {} at iteration {}: {}, {}, {} repeated\n", minute(i.wall),
                        words(i.kind), i.iteration.value, format_duration(i.time),
                        hours_text(run, i.node_hours), count_text(i.repeated, "iteration"));
  }
  return text;
}

std::string node_line(const SiteState& site) {
  if (site.ledger.nodes.empty()) return "";
  std::string text;
  std::size_t out = 0;
  for (const auto& [name, entry] : site.ledger.nodes) {
    const bool excluded = entry.excluded_until && *entry.excluded_until > site.now;
    if (!excluded && entry.usable) continue;
    if (++out > kNodesShown) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name.text,
                        excluded ? "excluded" : entry.scheduler_state);
  }
  if (out == 0) return fmt::format("Nodes: all {} in use or free.\n", site.ledger.nodes.size());
  if (out > kNodesShown) text += fmt::format(" and {} more", out - kNodesShown);
  return fmt::format("Nodes: {} of {} out: {}.\n", out, site.ledger.nodes.size(), text);
}

std::string spend_line(const RunState& run, const Week& week, WallTime wall) {
  const auto spend = spend_of(run, wall);
  if (!spend) return fmt::format("Spend: {:.2f} node hours.\n", week.all_node_hours);
  return fmt::format("Spend: {} this week; in all {}.\n", hours_text(run, week.all_node_hours),
                     spend_text(*spend));
}

std::string outlook(const RunState& run, WallTime wall) {
  std::string text = fmt::format("{} is {} at iteration {}", run.policy.run.text,
                                 state_name(run.training), run.health.progress.iteration.value);
  if (run.health.progress.total > 0) text += fmt::format(" of {}", run.health.progress.total);
  const auto f = forecast_of(run, wall);
  if (!f) return text;
  return text + fmt::format("; finished in about {} (between {} and {})",
                            format_duration(from_seconds(f->left_s)),
                            format_duration(from_seconds(f->low_s)),
                            format_duration(from_seconds(f->high_s)));
}

}  // namespace

WallTime last_due(const DigestRule& rule, WallTime wall, Duration offset) {
  const Duration shift = rule.utc ? Duration{} : offset;
  // 1970-01-01 was a Thursday: three days before it a week of Sundays began.
  const Duration local = wall.time_since_epoch() + shift + 4 * kDay;
  const Duration hour = static_cast<std::int64_t>(rule.day) * kDay + std::chrono::minutes(rule.at);
  Duration week = (local - hour) % kWeek;
  if (week < 0ns) week += kWeek;
  return wall - week;
}

namespace {

// Half a week: an hour that was moved in RUN.yaml, or by summer time, is not a second one. An hour
// of the far future came from a clock that was wrong.
bool was_made(const RunState& run, WallTime due, WallTime wall) {
  const WallTime last = run.accounting.weekly.due;
  return last != WallTime{} && last <= wall + kWeek && due - last < kWeek / 2;
}

}  // namespace

std::optional<WallTime> weekly_due(const RunState& run, WallTime wall, Duration offset) {
  if (!run.policy.alerts.digest) return std::nullopt;
  const WallTime due = last_due(*run.policy.alerts.digest, wall, offset);
  return was_made(run, due, wall) ? std::nullopt : std::optional(due);
}

WeeklyText weekly_text(const SiteState& site, const RunState& run, WallTime wall) {
  const Week week = week_of(run);
  WeeklyText text;
  text.summary =
      fmt::format("{}: week to {}: goodput {:.1f} %, {}, {} lost", run.policy.run.text,
                  format_rfc3339(wall).substr(0, 10), share(week, "train"),
                  count_text(week.incidents, "incident"), hours_text(run, week.node_hours));
  text.outlook = outlook(run, wall);
  text.report = fmt::format("{} to {} UTC, {}.\n",
                            run.accounting.weekly.made == WallTime{}
                                ? "From the beginning"
                                : "From " + minute(run.accounting.weekly.made),
                            minute(wall), count_text(week.iterations, "new iteration"));
  text.report += time_line(week) + lost_line(run, week) + incident_lines(run) + node_line(site) +
                 spend_line(run, week, wall);
  return text;
}

void on_weekly_due(Turn& turn, const WeeklyDue& due) {
  RunState& run = turn.r();
  const bool asked = !due.asked_by.empty();
  if (!asked && was_made(run, due.due, turn.event.wall)) return;
  if (!asked && run.accounting.weekly.due == WallTime{}) {
    run.accounting.weekly.due = due.due;
    return;
  }
  const WeeklyText text = weekly_text(turn.site, run, turn.event.wall);
  turn.say(asked ? fmt::format("{} asked for a digest: {}", due.asked_by, text.outlook)
                 : text.outlook);
  announce(turn, {Severity::Info, "weekly_digest", text.summary, "", "", text.report});
  if (asked) return;
  const Goodput& g = run.accounting.goodput;
  run.accounting.weekly = {due.due,      turn.event.wall,  g.spent,  g.costs,
                           g.node_hours, g.all_node_hours, g.reached};
}

}  // namespace stoker::core
