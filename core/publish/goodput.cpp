// By the state and phase that lasted until now.
#include "core/publish/goodput.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "core/state.hpp"
#include "recipe/save_rounds.hpp"

namespace stoker::core {
namespace {

constexpr Duration kLongest = 24h * 365;  // a clock that jumped further proves nothing

std::string cause_of(const RunState& run) {
  if (std::holds_alternative<training::Queued>(run.training)) return "queue";
  if (std::holds_alternative<training::Starting>(run.training)) return "start";
  if (std::holds_alternative<training::Training>(run.training)) {
    if (run.health.progress.phase == wire::Phase::Checkpoint) return "checkpoint";
    return run.health.progress.iteration < run.accounting.goodput.reached ? "repeated" : "train";
  }
  const bool over = std::holds_alternative<training::Held>(run.training) ||
                    std::holds_alternative<training::Stopped>(run.training) ||
                    std::holds_alternative<training::Finished>(run.training) ||
                    std::holds_alternative<training::Idle>(run.training);
  return over ? "held" : "down";
}

void spend(Goodput& g, const std::string& cause, Duration time, double node_hours) {
  CauseCost& cost = g.costs[cause];
  cost.time += time;
  cost.node_hours += node_hours;
}

// The incident that goes on, or the one whose lost iterations are repeated now; null = none.
IncidentCost* incident_of(RunState& run, const std::string& cause) {
  Goodput& g = run.accounting.goodput;
  if (run.recovery.incident &&
      (g.incidents.empty() || g.incidents.back().since != run.recovery.incident->since)) {
    IncidentCost cost;
    cost.kind = run.recovery.incident->kind;
    cost.since = run.recovery.incident->since;
    cost.wall = run.recovery.incident->wall;
    cost.iteration = run.recovery.incident->iteration;
    ++g.costs[cost.kind].times;
    g.incidents.push_back(std::move(cost));
    if (g.incidents.size() > kIncidentsKept) g.incidents.erase(g.incidents.begin());
  }
  if (g.incidents.empty() || cause == "held") return nullptr;
  return run.recovery.incident || cause == "repeated" ? &g.incidents.back() : nullptr;
}

void account_power(RunState& run, Duration lasted, double nodes) {
  Goodput& g = run.accounting.goodput;
  const double hours = to_seconds(lasted) / 3600;
  g.all_node_hours += hours * nodes;
  const bool beats = std::holds_alternative<training::Training>(run.training) ||
                     std::holds_alternative<training::Starting>(run.training);
  if (!beats || run.health.progress.gpu_watts <= 0) return;
  g.measured_kwh += hours * run.health.progress.gpu_watts / 1000;
  g.measured_node_hours += hours * nodes;
}

double usual_step_hours(const RunState& run) {
  const auto found = run.health.phases.find(std::string(stoker::name_of(wire::Phase::Iteration)));
  const auto step = found == run.health.phases.end() ? std::optional<Duration>()
                                                     : found->second.durations.quantile(500);
  return step ? to_seconds(*step) / 3600 : 0;
}

// Samples of an iteration, by the two newest points of the trail.
double batch_of(const RunState& run) {
  const auto& points = run.recovery.trail.points;
  if (points.size() < 2) return 0;
  const TrailPoint& a = points[points.size() - 2];
  const TrailPoint& b = points.back();
  if (b.iteration <= a.iteration || b.samples <= a.samples || a.samples == 0) return 0;
  return static_cast<double>(b.samples - a.samples) /
         static_cast<double>(b.iteration.value - a.iteration.value);
}

}  // namespace

void account(RunState& run, Instant now) {
  Goodput& g = run.accounting.goodput;
  if (g.until == Instant{}) g.until = now;
  const Duration lasted = std::clamp<Duration>(now - g.until, 0ns, kLongest);
  g.until = now;
  g.reached = std::max(g.reached, run.health.progress.iteration);
  if (lasted == 0ns) return;
  const std::string cause = cause_of(run);
  Duration good = cause == "train" ? lasted : Duration{};
  if (cause == "train" && run.health.speed.slow) {
    const double share = run.health.speed.slow->share();
    const Duration slow = from_seconds(to_seconds(lasted) * share / (1 + share));
    g.spent["slow"] += slow;
    good -= slow;
    g.spent["train"] += good;
  } else {
    g.spent[cause] += lasted;
  }
  const auto nodes = static_cast<double>(run.live ? run.live->nodes.size() : 0);
  account_power(run, lasted, nodes);
  const Duration bad = lasted - good;
  const double node_hours = to_seconds(bad) / 3600 * nodes;
  IncidentCost* incident = incident_of(run, cause);
  if (cause == "held" || bad <= 0ns) return;
  g.node_hours += node_hours;
  if (incident == nullptr) return spend(g, cause == "train" ? "slow" : cause, bad, node_hours);
  incident->time += bad;
  incident->node_hours += node_hours;
  spend(g, incident->kind, bad, node_hours);
}

namespace {

constexpr double kLeastShown = 0.005;  // what two digits behind the point show as more than 0.00

std::string hours_of(double hours, std::string_view unit) {
  return hours > 0 && hours < kLeastShown ? fmt::format("less than 0.01 {} hours", unit)
                                          : fmt::format("{:.2f} {} hours", hours, unit);
}

// How many hours of its own unit, GPUs or nodes, an hour of a node is.
std::pair<double, std::string_view> unit_of(const RunState& run) {
  const auto gpus = run.policy.scheduler.gpus_per_node;
  return gpus && *gpus > 0 ? std::pair<double, std::string_view>(*gpus, "GPU")
                           : std::pair<double, std::string_view>(1, "node");
}

}  // namespace

std::string hours_text(const RunState& run, double node_hours) {
  const auto [each, unit] = unit_of(run);
  return hours_of(node_hours * each, unit);
}

std::string cost_text(double gpu_hours, double node_hours) {
  return gpu_hours > 0 || node_hours <= 0 ? hours_of(gpu_hours, "GPU")
                                          : hours_of(node_hours, "node");
}

std::string lost_so_far(const RunState& run, double node_hours) {
  return node_hours * unit_of(run).first < kLeastShown
             ? ""
             : hours_text(run, node_hours) + " lost so far";
}

std::string incident_cost_text(const RunState& run, std::uint64_t repeated) {
  if (!run.recovery.incident || run.accounting.goodput.incidents.empty() || !run.live) return "";
  const IncidentCost& cost = run.accounting.goodput.incidents.back();
  if (cost.since != run.recovery.incident->since) return "";
  const double again = static_cast<double>(repeated) * usual_step_hours(run) *
                       static_cast<double>(run.live->nodes.size());
  const std::string lost = lost_so_far(run, cost.node_hours);
  const std::string with_repeats = hours_text(run, cost.node_hours + std::max(0.0, again));
  if (with_repeats == hours_text(run, cost.node_hours)) return lost;
  return fmt::format("{}{}about {} with the repeated iterations", lost, lost.empty() ? "" : ", ",
                     with_repeats);
}

std::optional<double> mfu(const RunState& run) {
  const GoodputPolicy& p = run.policy.goodput;
  const double gpus = run.policy.scheduler.gpus_per_node.value_or(0);
  const double step = usual_step_hours(run) * 3600;
  const double batch = batch_of(run);
  if (p.peak_tflops <= 0 || p.sample_flops <= 0 || gpus <= 0 || step <= 0 || batch <= 0 ||
      !run.live || run.live->attempt_nodes.empty())
    return std::nullopt;
  const double all = gpus * static_cast<double>(run.live->attempt_nodes.size());
  return batch * p.sample_flops / (step * all * p.peak_tflops * 1e12);
}

std::optional<Energy> energy(const RunState& run) {
  const Goodput& g = run.accounting.goodput;
  const GoodputPolicy& p = run.policy.goodput;
  const double gpus = run.policy.scheduler.gpus_per_node.value_or(0);
  if (g.all_node_hours <= 0 || (gpus <= 0 && g.measured_node_hours <= 0)) return std::nullopt;
  Energy e;
  const double rest = gpus <= 0 ? 0 : g.all_node_hours - g.measured_node_hours;
  e.kwh = (g.measured_kwh + std::max(0.0, rest) * gpus * p.gpu_watts / 1000) * p.pue;
  e.co2_kg = e.kwh * p.co2_g_per_kwh / 1000;
  e.measured_share = g.measured_node_hours / g.all_node_hours;
  const std::string model = fmt::format(
      "{:.0f} W a GPU x PUE {:.2f} (goodput.gpu_watts, goodput.pue)", p.gpu_watts, p.pue);
  e.how = e.measured_share > 0.999 ? fmt::format("measured by NVML, x PUE {:.2f}", p.pue)
          : e.measured_share <= 0
              ? "model: " + model
              : fmt::format("{:.0f} % measured by NVML, the rest by the model {}",
                            100 * e.measured_share, model);
  return e;
}

Duration whole(const Goodput& goodput) {
  Duration sum{};
  for (const auto& [cause, time] : goodput.spent)
    if (cause != "held") sum += time;
  return sum;
}

double ettr(const Goodput& goodput) {
  const Duration all = whole(goodput);
  const auto train = goodput.spent.find("train");
  if (all <= 0ns || train == goodput.spent.end()) return 0;
  return to_seconds(train->second) / to_seconds(all);
}

std::optional<SaveAdvice> save_advice(const RunState& run) {
  SaveAdvice advice;
  advice.failures = run.recovery.budget.restarts;
  const auto phase = run.health.phases.find(std::string(stoker::name_of(wire::Phase::Checkpoint)));
  const auto usual = run.health.checkpoint.intervals.quantile(500);
  if (phase == run.health.phases.end() || !usual || advice.failures == 0) return std::nullopt;
  const auto cost = phase->second.durations.quantile(500);
  if (!cost || *cost <= 0ns) return std::nullopt;
  Duration ran{};
  for (const char* cause : {"train", "repeated", "slow", "checkpoint"})
    if (const auto found = run.accounting.goodput.spent.find(cause);
        found != run.accounting.goodput.spent.end())
      ran += found->second;
  if (ran <= 0ns) return std::nullopt;
  advice.usual = *usual;
  advice.cost = *cost;
  advice.mtbf = ran / advice.failures;
  advice.best = recipe::daly_interval(advice.cost, advice.mtbf);
  return advice;
}

}  // namespace stoker::core
