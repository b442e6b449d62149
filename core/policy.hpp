// RunPolicy: what RUN.yaml says about a run, as the decider needs it: plain values, no paths to
// look up, no YAML. It enters the decider as an event (RunAdded, PolicyChanged) and is part of the
// state. configs/schema fills it in.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "core/alerts/alert_policy.hpp"
#include "core/supply/rest_access.hpp"
#include "wire/heartbeat_page.hpp"
#include "wire/orders.hpp"

namespace stoker::core {

enum class SchedulerKind { Local, Slurm };
enum class OnScancel { Hold, Restart };

}  // namespace stoker::core

template <>
struct stoker::EnumNames<stoker::core::SchedulerKind> {
  static constexpr std::array names{"local", "slurm"};
};
template <>
struct stoker::EnumNames<stoker::core::OnScancel> {
  static constexpr std::array names{"hold", "restart"};
};

namespace stoker::core {

struct NodesStep {  // nodes as a function of consumed samples; the last one has until_samples = 0
                    // (no bound)
  std::uint64_t until_samples = 0;
  std::uint32_t nodes = 1;
  STOKER_FIELDS(NodesStep, until_samples, nodes)
};

struct SchedulerPolicy {
  SchedulerKind kind = SchedulerKind::Local;
  RestAccess rest;  // of SLURM
  // Of several SLURM clusters that share a slurmdbd, the one that commands act on (their -M); "" =
  // the one that SLURM_CONF names.
  std::string cluster;
  std::string partition, account;
  std::vector<NodesStep> nodes{{0, 1}};
  std::vector<std::uint32_t> nodes_allowed;  // empty: all
  std::uint32_t spares = 0;
  std::optional<std::uint32_t> gpus_per_node, cpus_per_task;
  Duration time_limit = 20h;
  std::uint32_t array_tasks = 10;
  std::uint32_t top_up_below = 2;  // submit a new array when fewer tasks than this are left
  std::vector<NodeName> exclude;
  std::string begin;  // --begin of the first submission; "" = now
  std::vector<std::string> extra;
  STOKER_FIELDS(SchedulerPolicy, kind, rest, cluster, partition, account, nodes, nodes_allowed,
                spares, gpus_per_node, cpus_per_task, time_limit, array_tasks, top_up_below,
                exclude, begin, extra)
};

// One scheduler of all that a daemon may have: its kind, and the way in.
struct SchedulerPlace {
  SchedulerKind kind = SchedulerKind::Local;
  RestAccess rest;
  std::string cluster;
  auto operator<=>(const SchedulerPlace&) const = default;
};
inline SchedulerPlace place_of(const SchedulerPolicy& policy) {
  if (policy.kind != SchedulerKind::Slurm) return {policy.kind, {}, {}};
  return {policy.kind, policy.rest, policy.cluster};
}

using wire::FinishedWhen;

struct TrainPolicy {
  std::vector<std::string> command;
  std::string batch_script;
  std::uint32_t ranks_per_node = 1;
  std::map<std::string, std::string> environment;
  std::string setup;
  std::string agent;  // path of stoker-agent; "" = beside stokerd
  std::string kill_switch, save_signal;
  FinishedWhen finished;
  Duration exit_before_limit = 10min;
  STOKER_FIELDS(TrainPolicy, command, batch_script, ranks_per_node, environment, setup, agent,
                kill_switch, save_signal, finished, exit_before_limit)
};

struct WatchPolicy {
  std::vector<std::string> logs, kernel_logs, signatures;
  std::map<std::string, std::string> progress;  // empty = automatic
  std::vector<std::string> disk_paths;
  double disk_min_free = 0.05, disk_min_free_inodes = 0.02, shm_min_free = 0.10;  // shares of 1
  STOKER_FIELDS(WatchPolicy, logs, kernel_logs, signatures, progress, disk_paths, disk_min_free,
                disk_min_free_inodes, shm_min_free)
};

struct HangPolicy {
  Duration floor = 60s;
  Duration ceiling = 30min;
  // Limits while nothing is learned yet, by phase. Iteration has none of its own: `ceiling`.
  Duration startup = 30min, load = 90min, checkpoint = 20min, evaluation = 60min, shutdown = 20min;
  STOKER_FIELDS(HangPolicy, floor, ceiling, startup, load, checkpoint, evaluation, shutdown)
};

struct RecoverPolicy {
  bool in_allocation = true;
  OnScancel on_scancel = OnScancel::Hold;
  std::uint32_t restarts_total = 20;
  std::uint32_t restarts_without_progress = 3;
  Duration refill = 24h;
  Duration exclude_for = 24h;
  double exclude_at_most = 0.05;  // share of the nodes known; at least one node may always be
                                  // excluded when spares or other nodes remain
  bool exclude_drain = false;     // broken nodes may be drained for everybody
  bool preflight = false;         // nodes are tested before the first start
  bool rollback_enabled = false;
  double rollback_lr_scale = 0.75;
  std::uint32_t rollback_at_most = 2;
  STOKER_FIELDS(RecoverPolicy, in_allocation, on_scancel, restarts_total, restarts_without_progress,
                refill, exclude_for, exclude_at_most, exclude_drain, preflight, rollback_enabled,
                rollback_lr_scale, rollback_at_most)
};

struct CheckpointPolicy {
  std::string directory = "checkpoints";  // relative to the run directory, or absolute
  std::string format = "stoker";
  std::string complete_when;
  std::uint32_t keep_last = 0;  // 0 = nothing is deleted
  std::uint64_t keep_every = 0;
  std::vector<std::uint64_t> pin;
  std::string archive_to;           // absolute; "" = nothing is copied away
  std::uint64_t archive_every = 0;  // multiples of it
  bool archive_without_optimizer = false;
  bool verify = true;
  bool interval_auto = false;  // asked for by itself at Daly's interval for what this run shows
  Duration interval{};         // asked for at this interval; 0: the training's own saves only
  Duration interval_floor = 5min;
  STOKER_FIELDS(CheckpointPolicy, directory, format, complete_when, keep_last, keep_every, pin,
                archive_to, archive_every, archive_without_optimizer, verify, interval_auto,
                interval, interval_floor)
};

// What MFU, energy and CO2 are reckoned with; 0 = not known.
struct GoodputPolicy {
  double peak_tflops = 0;   // of one GPU, dense, in the training's number format
  double sample_flops = 0;  // of the model for one sample, forward and backward
  double gpu_watts = 400;   // A100 SXM4's limit (NVIDIA's data sheet)
  double pue = 1.2;         // Jean Zay's (Luccioni et al. 2022, arXiv 2211.02001)
  double co2_g_per_kwh = 0;
  STOKER_FIELDS(GoodputPolicy, peak_tflops, sample_flops, gpu_watts, pue, co2_g_per_kwh)
};

// What the run may cost; 0 = no budget. Spending more is reported and stops nothing.
struct BudgetPolicy {
  double gpu_hours = 0;  // of the allocation, spares and waiting ranks included
  STOKER_FIELDS(BudgetPolicy, gpu_hours)
};

// A command that is run on checkpoints, each time as a job of its own (core/followers).
struct FollowerPolicy {
  std::string name;
  std::uint64_t every = 0;  // the first checkpoint at or behind each multiple of it
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;
  std::uint32_t nodes = 1;
  Duration time_limit = 4h;
  std::string partition, account;  // what is not given is the training's
  std::optional<std::uint32_t> gpus_per_node, cpus_per_task;
  std::uint32_t at_once = 1;  // jobs at a time
  std::uint32_t tries = 3;
  Duration wait = 5min;       // between two tries; doubles
  std::uint32_t backlog = 3;  // checkpoints that may wait; then the oldest is left out
  STOKER_FIELDS(FollowerPolicy, name, every, command, environment, nodes, time_limit, partition,
                account, gpus_per_node, cpus_per_task, at_once, tries, wait, backlog)
};

struct RunPolicy {
  RunName run;
  std::string directory;         // run directory, absolute
  std::string config_path;       // RUN.yaml, absolute
  std::string config_directory;  // its folder: relative paths count from there
  std::string group;
  SchedulerPolicy scheduler;
  TrainPolicy train;
  WatchPolicy watch;
  HangPolicy hang;
  RecoverPolicy recover;
  CheckpointPolicy checkpoints;
  AlertPolicy alerts;
  GoodputPolicy goodput;
  BudgetPolicy budget;
  std::vector<FollowerPolicy> after;
  STOKER_FIELDS(RunPolicy, run, directory, config_path, config_directory, group, scheduler, train,
                watch, hang, recover, checkpoints, alerts, goodput, budget, after)
};

// An existing batch script runs as it is: nothing of ours is inside its jobs (script.hpp).
inline bool has_agents(const RunPolicy& policy) {
  return policy.train.batch_script.empty();
}

}  // namespace stoker::core

STOKER_JSON_ONCE(stoker::core::RunPolicy)
