#include "cli/commands/plan_calendar.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

#include "common/hostlist.hpp"
#include "common/os/process.hpp"
#include "core/supply/calendar.hpp"
#include "slurm/calendar.hpp"
#include "slurm/client_call.hpp"
#include "slurm/node_states.hpp"

namespace stoker::cli {
namespace {

constexpr Duration kPatience = 20s;

Result<std::string> ask(const Context& context, const std::string& cluster,
                        std::vector<std::string> argv) {
  const std::string name = argv.front();
  const auto call = slurm::client_call(std::move(argv), context.environment, cluster);
  STOKER_TRY(answer, os::run_command(call, kPatience));
  if (!answer.status.ok()) return fail(slurm::what_it_said(answer), name, "see scontrol ping");
  return answer.out;
}

struct Cluster {
  core::CalendarSeen calendar;
  std::map<NodeName, bool> usable;
};

Result<Cluster> ask_cluster(const Context& context, const std::string& name) {
  Cluster cluster;
  STOKER_TRY(partitions, ask(context, name, slurm::partitions_command()));
  STOKER_TRY(reservations, ask(context, name, slurm::reservations_command()));
  STOKER_TRY(states, ask(context, name, slurm::nodes_command()));
  STOKER_TRY(parsed_partitions, slurm::parse_partitions(partitions));
  STOKER_TRY(parsed_reservations, slurm::parse_reservations(reservations));
  STOKER_TRY(nodes, slurm::parse_nodes(states));
  cluster.calendar = {std::move(parsed_partitions), std::move(parsed_reservations), {}};
  for (const core::NodeSeen& node : nodes) cluster.usable[node.node] = node.usable;
  return cluster;
}

std::string reservation_text(const core::Reservation& r, const std::vector<std::string>& own) {
  const bool is_own = std::find(own.begin(), own.end(), r.name) != own.end();
  return fmt::format("{} ({}): {}", r.name, is_own ? "this run's" : "of others", r.nodes);
}

std::string why_text(const core::supply::Window& window, const core::CalendarSeen& calendar,
                     const std::vector<std::string>& own) {
  std::string text;
  for (const core::Reservation& r : calendar.reservations)
    if (std::find(window.reservations.begin(), window.reservations.end(), r.name) !=
        window.reservations.end())
      text += (text.empty() ? "" : "; ") + reservation_text(r, own);
  return text;
}

std::string size_text(const core::supply::Window& window) {
  return window.size <= window.usable ? std::to_string(window.size) : "waits";
}

Json window_json(const core::supply::Window& window) {
  return {{"from", format_rfc3339(window.from)},
          {"until", window.until ? Json(format_rfc3339(*window.until)) : Json()},
          {"usable", window.usable},
          {"size", window.size <= window.usable ? Json(window.size) : Json()},
          {"reservations", window.reservations}};
}

}  // namespace

int show_calendar(Context& context, const core::RunPolicy& policy, bool json) {
  const Console& console = context.console;
  if (policy.scheduler.kind != core::SchedulerKind::Slurm)
    return console.say("the embedded scheduler has no reservations: --calendar is about SLURM"),
           kFailed;
  const auto cluster = ask_cluster(context, policy.scheduler.cluster);
  if (!cluster) return console.say(cluster.error().message()), kFailed;
  const auto& excluded = policy.scheduler.exclude;
  const core::supply::IsUsable usable = [&](const NodeName& node) {
    const auto found = cluster->usable.find(node);
    return found != cluster->usable.end() && found->second &&
           std::find(excluded.begin(), excluded.end(), node) == excluded.end();
  };
  std::uint32_t active = 1;
  for (const core::NodesStep& step : policy.scheduler.nodes) active = std::max(active, step.nodes);
  const WallTime now = wall_now();
  const auto windows =
      core::supply::windows_of(cluster->calendar, policy.scheduler, usable, active, now);
  const auto own = core::supply::own_reservations(policy.scheduler);
  if (!core::supply::nodes_between(cluster->calendar, policy.scheduler, usable, now, now + 1s))
    return console.say(fmt::format("sinfo shows no partition {}",
                                   policy.scheduler.partition.empty()
                                       ? "that is the default"
                                       : printable(policy.scheduler.partition))),
           kFailed;
  if (json) {
    Json rows = Json::array();
    for (const auto& window : windows) rows.push_back(window_json(window));
    console.line(dump_json({{"run", policy.run.text},
                            {"nodes", active},
                            {"nodes_allowed", policy.scheduler.nodes_allowed},
                            {"reservation", own},
                            {"windows", std::move(rows)}}));
    return kDone;
  }
  console.line(fmt::format(
      "{} wants {} nodes{}, for {} each time", printable(policy.run.text), active,
      policy.scheduler.nodes_allowed.empty()
          ? std::string()
          : fmt::format(" (allowed: {})", fmt::join(policy.scheduler.nodes_allowed, ", ")),
      format_duration(policy.scheduler.time_limit)));
  console.line(fmt::format("{:<21} {:<21} {:>6} {:>6}  {}", "from", "until", "usable", "size",
                           "reservations"));
  for (const auto& window : windows)
    console.line(fmt::format("{:<21} {:<21} {:>6} {:>6}  {}", format_rfc3339(window.from),
                             window.until ? format_rfc3339(*window.until) : "-", window.usable,
                             size_text(window),
                             printable(why_text(window, cluster->calendar, own))));
  return kDone;
}

}  // namespace stoker::cli
