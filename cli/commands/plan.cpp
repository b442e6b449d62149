// stoker plan RUN.yaml [--nodes N]: size, memory, legal node counts, iterations, ETA, checkpoint
// volume and the best save interval, before a GPU hour is spent.
#include "recipe/plan.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/commands/plan_calendar.hpp"
#include "cli/commands/what_if.hpp"
#include "cli/read/event_file.hpp"
#include "cli/read/published.hpp"
#include "cli/read/run_file.hpp"
#include "cli/show/pipeline_text.hpp"
#include "cli/show/render_status.hpp"
#include "common/os/memory_room.hpp"
#include "common/size_text.hpp"
#include "configs/schema/yaml_scalars.hpp"
#include "recipe/sequence_plan.hpp"

namespace stoker::cli {
namespace {

// Whether snapshots in memory fit a node; empty: they do, or nothing is known of it.
struct NodeMemory {
  std::uint64_t bytes = 0;  // there is
  std::string why;
};

struct PlanOptions {
  std::string path, mtbf, save_cost, save_interval, restart_cost, wait, iteration_time;
  std::uint64_t done = 0;
  std::optional<std::uint32_t> spares;
  std::uint32_t nodes = 0;
  std::uint64_t node_memory = 0;
  std::optional<double> tflops;
  bool json = false, what_if = false, calendar = false;
};

// What a run of the same name has already shown: speed, cost of a save, time between failures.
void observe(const core::RunPolicy& policy, const recipe::TrainConfig& config,
             recipe::PlanRequest& request) {
  const wire::SiteRun run{policy.run.text, policy.directory};
  const auto status = read_status(run, Reach::Away);
  if (status && status->step_norm_s > 0 && !request.device_tflops) {
    request.samples_per_second = static_cast<double>(config.batch.global) / status->step_norm_s;
    request.observed_at = status->iteration;
  }
  auto events = EventFile::open(run.directory);
  if (!events) return;
  const auto is_save = [](const wire::PublishedEvent& e) {
    const Json body = said_by_agents(e);
    return body.is_object() && body.value("kind", Json()) == "checkpoint_saved";
  };
  if (const auto saves = events->newest(1, is_save); saves && !saves->empty()) {
    const Json seconds = said_by_agents(saves->front()).value("seconds", Json());
    if (!request.save_cost && seconds.is_number() && seconds.get<double>() > 0 &&
        seconds.get<double>() < 1e6)
      request.save_cost = from_seconds(seconds.get<double>());
  }
  if (request.mean_time_between_failures || !status || status->restarts == 0) return;
  std::optional<WallTime> first;
  const auto lines = LineFile::open(run.directory + "/events.jsonl");
  if (!lines) return;
  static_cast<void>(lines->forward(0, false, [&](std::string_view line) {
    const auto event = from_json_text<wire::PublishedEvent>(line, "events.jsonl");
    if (const auto at = event ? parse_rfc3339(event->time) : parse_rfc3339("")) first = *at;
    return false;
  }));
  const auto last = parse_rfc3339(status->published);
  if (first && last && *last > *first)
    request.mean_time_between_failures = (*last - *first) / status->restarts;
}

// Why the asked nodes cannot run it; "" when they can.
std::string illegal_text(const recipe::Plan& plan) {
  if (plan.illegal_mesh) return *plan.illegal_mesh;
  return plan.illegal ? plan.illegal->text() : "";
}

// With the embedded scheduler all nodes are on this host, and have what is free now.
NodeMemory memory_of_node(const PlanOptions& options, const core::RunPolicy& policy,
                          const recipe::PlanRequest& request, const recipe::Plan& plan) {
  NodeMemory memory{options.node_memory, ""};
  std::string whose = "a node";
  if (memory.bytes == 0 && policy.scheduler.kind == core::SchedulerKind::Local)
    if (const auto room = os::memory_room()) {
      memory.bytes = room->free / std::max<std::uint64_t>(1, request.nodes);
      whose = fmt::format("each of {} nodes on this host", request.nodes);
    }
  if (plan.snapshot_bytes > 0 && memory.bytes > 0 && plan.node_bytes > memory.bytes)
    memory.why = fmt::format(
        "snapshots in memory do not fit: {} needs {} ({} of them for "
        "snapshots), it has {}",
        whose, size_text(plan.node_bytes), size_text(plan.snapshot_bytes), size_text(memory.bytes));
  return memory;
}

Json snapshots_json(const recipe::TrainConfig& config, const recipe::Plan& plan,
                    const NodeMemory& memory) {
  if (config.checkpoint.memory_every == 0) return Json();
  return {{"every", config.checkpoint.memory_every},
          {"snapshot_bytes_per_node", plan.snapshot_bytes},
          {"bytes_per_node", plan.node_bytes},
          {"memory_of_node", memory.bytes == 0 ? Json() : Json(memory.bytes)},
          {"refused", memory.why.empty() ? Json() : Json(memory.why)}};
}

Json as_json(const configs::CheckedRun& run, const recipe::PlanRequest& request,
             const recipe::Plan& plan, const NodeMemory& memory) {
  const std::string illegal = illegal_text(plan);
  const auto seconds = [](const std::optional<Duration>& d) {
    return d ? Json(to_seconds(*d)) : Json();
  };
  return {{"run", run.file.policy.run.text},
          {"mesh", mesh_json(run.train->config, plan)},
          {"nodes", request.nodes},
          {"ranks_per_node", request.ranks_per_node},
          {"parameters", plan.parameters},
          {"data_parallel", plan.data_parallel},
          {"legal_nodes", plan.legal_nodes},
          {"legal", illegal.empty()},
          {"illegal", illegal.empty() ? Json() : Json(illegal)},
          {"legal_from", plan.legal_from ? Json{{"iteration", plan.legal_from->first_iteration},
                                                {"consumed_samples", plan.legal_from->consumed},
                                                {"global_batch_size", plan.legal_from->global}}
                                         : Json()},
          {"iterations", plan.iterations},
          {"samples", plan.samples},
          {"tokens", plan.tokens},
          {"curriculum", recipe::curriculum_text(run.train->config)},
          {"flops", plan.total_flops},
          {"memory",
           {{"model_state_bytes", plan.memory.model_state},
            {"activation_bytes", plan.memory.activations},
            {"runtime_bytes", plan.memory.runtime},
            {"total_bytes", plan.memory.total()}}},
          {"memory_snapshots", snapshots_json(run.train->config, plan, memory)},
          {"checkpoint", {{"bytes", plan.checkpoint_bytes}, {"count", plan.checkpoints}}},
          {"iteration_s", seconds(plan.iteration_time)},
          {"tflops", plan.tflops ? Json(*plan.tflops) : Json()},
          {"eta_s", seconds(plan.eta)},
          {"mtbf_s", seconds(request.mean_time_between_failures)},
          {"save_cost_s", seconds(request.save_cost)},
          {"save_interval_s", seconds(plan.save_interval)},
          {"save_every", plan.save_every ? Json(*plan.save_every) : Json()}};
}

std::string ramp_text(const recipe::Plan& plan) {
  if (plan.phases.size() < 2) return "";
  return fmt::format(", batch {} to {} in {} steps", plan.phases.front().global,
                     plan.phases.back().global, plan.phases.size());
}

std::string snapshots_text(const recipe::TrainConfig& config, const recipe::PlanRequest& request,
                           const recipe::Plan& plan) {
  if (plan.snapshot_bytes == 0) return "unknown: these nodes do not fit the mesh";
  return fmt::format("every {}: {} of a node's memory ({} rank{}, two generations{})",
                     config.checkpoint.memory_every, size_text(plan.snapshot_bytes),
                     request.ranks_per_node, request.ranks_per_node == 1 ? "" : "s",
                     request.nodes > 1 ? ", own and the next node's" : "; there is no next node");
}

void show(const Console& console, const recipe::TrainConfig& config,
          const recipe::PlanRequest& request, const recipe::Plan& plan, const NodeMemory& memory) {
  const auto row = [&](const char* label, const std::string& value) {
    console.line(fmt::format("{:<22} {}", label, printable(value)));
  };
  row("parameters", with_commas(plan.parameters));
  row("ranks",
      fmt::format("{} nodes x {} = {}, data parallel {}{}", request.nodes, request.ranks_per_node,
                  request.nodes * request.ranks_per_node, plan.data_parallel,
                  request.from > 0
                      ? fmt::format(", from {} consumed samples on", with_commas(request.from))
                      : ""));
  std::vector<std::uint64_t> legal = plan.legal_nodes;
  const bool more = legal.size() > 24;
  if (more) legal.resize(24);
  row("legal node counts",
      legal.empty() ? "none" : fmt::format("{}{}", fmt::join(legal, " "), more ? " …" : ""));
  if (plan.illegal) row("first bad step", plan.illegal->text());
  if (plan.illegal_mesh) row("not possible", *plan.illegal_mesh);
  if (plan.legal_from)
    row("possible from",
        fmt::format("iteration {} on (batch {}, {} consumed samples)",
                    with_commas(plan.legal_from->first_iteration + 1), plan.legal_from->global,
                    with_commas(plan.legal_from->consumed)));
  for (const auto& [label, value] : mesh_rows(config, plan)) row(label.c_str(), value);
  row("iterations", with_commas(plan.iterations) + ramp_text(plan));
  row("samples, tokens", with_commas(plan.samples) + ", " + with_commas(plan.tokens));
  if (config.train.curriculum) row("curriculum", recipe::curriculum_text(config));
  row("memory per GPU",
      plan.memory.total() == 0
          ? "unknown: these nodes do not fit the mesh"
          : fmt::format("{} ({})", size_text(plan.memory.total()), memory_parts(plan.memory)) +
                (plan.memory.runtime > 0 ? "" : ", buffers not counted"));
  if (config.checkpoint.memory_every > 0) {
    row("snapshots in memory", snapshots_text(config, request, plan));
    if (!memory.why.empty()) row("not possible", memory.why);
  }
  row("checkpoints",
      fmt::format("{} of {}, {} in all", plan.checkpoints, size_text(plan.checkpoint_bytes),
                  size_text(plan.checkpoints * plan.checkpoint_bytes)));
  row("an iteration takes",
      plan.iteration_time
          ? format_duration(std::chrono::round<std::chrono::milliseconds>(*plan.iteration_time))
          : "unknown: give --tflops, or plan again when the run has trained");
  if (plan.tflops)
    row("TFLOP/s per GPU",
        fmt::format(
            "{:.2f} (legacy hardware convention{})", *plan.tflops,
            config.train.recompute == recipe::Recompute::Full ? ", recomputation counted" : ""));
  row("ETA", plan.eta ? format_duration(*plan.eta) : "unknown");
  if (plan.save_interval && request.save_cost && request.mean_time_between_failures)
    row("best save interval",
        fmt::format("{}{} (Daly: a save costs {}, a failure every {})",
                    format_duration(*plan.save_interval),
                    plan.save_every ? fmt::format(", every {} iterations", *plan.save_every) : "",
                    format_duration(*request.save_cost),
                    format_duration(*request.mean_time_between_failures)));
  else
    row("best save interval", "unknown: needs --mtbf and --save-cost, or a run that shows them");
}

bool read_duration(const Console& console, const char* name, const std::string& text,
                   std::optional<Duration>& out) {
  if (text.empty()) return true;
  const auto d = parse_duration(text);
  if (d && *d > Duration(0)) return out = *d, true;
  console.say(std::string(name) + ": expected a duration like 12h, got " + printable(text));
  return false;
}

int what_if(Context& context, const PlanOptions& options, const core::RunPolicy& policy) {
  const Console& console = context.console;
  WhatIf given;
  given.spares = options.spares;
  if (!read_duration(console, "--mtbf", options.mtbf, given.mtbf) ||
      !read_duration(console, "--save-cost", options.save_cost, given.save_cost) ||
      !read_duration(console, "--save-interval", options.save_interval, given.interval) ||
      !read_duration(console, "--restart-cost", options.restart_cost, given.restart_cost) ||
      !read_duration(console, "--wait", options.wait, given.wait))
    return kUsage;
  const wire::SiteRun run{policy.run.text, policy.directory};
  const auto status = read_status(run, Reach::Away);  // a run that never ran: what is given counts
  return show_what_if(console, status ? *status : wire::StatusDocument{}, given,
                      policy.recover.exclude_for, options.json);
}

int plan(Context& context, const PlanOptions& options) {
  const Console& console = context.console;
  const auto run = read_run_file(context, options.path);
  if (!run) return console.say(run.error().message()), kUsage;
  if (options.what_if && run->file.errors.empty())
    return what_if(context, options, run->file.policy);
  if (options.calendar && run->file.errors.empty())
    return show_calendar(context, run->file.policy, options.json);
  // With --nodes the question is about other nodes than the file's: its batch error is the answer.
  const bool train_good = run->train && run->train->errors.empty();
  if (!(options.nodes > 0 && train_good) && show_errors(console, run->file.errors) != kDone)
    return kUsage;
  if (!run->train)
    return console.say(printable(options.path) +
                       ": only stoker-train --config TRAIN.yaml can be planned; this command is "
                       "another program's"),
           kFailed;
  const core::RunPolicy& policy = run->file.policy;
  recipe::PlanRequest request;
  std::uint64_t from = 0;
  for (const core::NodesStep& step : policy.scheduler.nodes) {
    if (step.nodes > request.nodes) {
      request.nodes = step.nodes;
      request.from = from;  // the file's other steps are trained by their own nodes
    }
    from = step.until_samples;
  }
  if (options.nodes > 0) {
    request.nodes = options.nodes;
    request.from = 0;
  }
  request.ranks_per_node = policy.train.ranks_per_node;
  request.device_tflops = options.tflops;
  if (!read_duration(console, "--mtbf", options.mtbf, request.mean_time_between_failures) ||
      !read_duration(console, "--save-cost", options.save_cost, request.save_cost))
    return kUsage;
  if (!read_duration(console, "--iteration-time", options.iteration_time, request.iteration_time))
    return kUsage;
  request.done = options.done;
  observe(policy, run->train->config, request);
  const auto schedule = read_schedule_file(*run);
  if (!schedule) return console.say(schedule.error().message()), kUsage;
  if (*schedule) request.schedule = &**schedule;
  const auto made = recipe::make_plan(run->train->config, request);
  if (!made) return console.say(made.error().message()), kFailed;
  const NodeMemory memory = memory_of_node(options, policy, request, *made);
  if (options.json)
    console.line(dump_json(as_json(*run, request, *made, memory)));
  else
    show(console, run->train->config, request, *made, memory);
  return illegal_text(*made).empty() && memory.why.empty() ? kDone : kFailed;
}

}  // namespace

Command cmd_plan() {
  return {
      "plan",
      "size, memory, legal node counts, iterations, ETA, checkpoints, best save interval",
      {"stoker plan hello.yaml", "stoker plan hello.yaml --what-if --mtbf 12h --save-cost 40s",
       "stoker plan hello.yaml --nodes 48 --mtbf 12h --save-cost 40s",
       "stoker plan tr11.yaml --calendar"},
      [](CLI::App& app, Context& context) -> Action {
        const auto options = std::make_shared<PlanOptions>();
        app.add_option("RUN.yaml", options->path, "the run's configuration")->required();
        app.add_option("--nodes", options->nodes, "another number of nodes than the file's")
            ->check(CLI::Range(1, 16384))
            ->type_name("N");
        app.add_option("--node-memory", options->node_memory,
                       "of a node, for checkpoint.memory (embedded scheduler: what is free here)")
            ->transform(CLI::AsSizeValue(false))
            ->type_name("512GiB");
        app.add_option("--mtbf", options->mtbf, "mean time between failures (default: observed)")
            ->type_name("12h");
        app.add_option("--save-cost", options->save_cost,
                       "how long a save holds the training up (default: observed)")
            ->type_name("40s");
        app.add_option("--tflops", options->tflops,
                       "what one device reaches (default: the speed observed)")
            ->check(CLI::PositiveNumber)
            ->type_name("X");
        app.add_option("--iteration-time", options->iteration_time,
                       "of the full batch (default: observed)")
            ->type_name("105s");
        app.add_option("--done", options->done, "iterations behind the run: the ETA is of the rest")
            ->type_name("N");
        app.add_flag("--what-if", options->what_if,
                     "other save intervals, failure rates and spares; rollback now or wait");
        app.add_flag("--calendar", options->calendar,
                     "when nodes leave and come back, by SLURM's reservations");
        app.add_option("--save-interval", options->save_interval,
                       "with --what-if: between two saves (default: observed)")
            ->type_name("30min");
        app.add_option("--restart-cost", options->restart_cost,
                       "with --what-if: of a failure without what is repeated (default: observed, "
                       "else 5min)")
            ->type_name("5min");
        app.add_option("--wait", options->wait,
                       "with --what-if: before a rollback (default: 30min)")
            ->type_name("30min");
        app.add_option("--spares", options->spares, "with --what-if: this many spare nodes")
            ->check(CLI::Range(0, 1024))
            ->type_name("N");
        app.add_flag("--json", options->json, "one JSON document");
        return [&context, options] { return plan(context, *options); };
      }};
}

}  // namespace stoker::cli
