// SiteState: all that the decider remembers, and nothing else does. One total order of events
// changes it, through step() alone. It is written whole as canonical JSON with every transaction;
// ordered containers only, so the same history is the same bytes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/node_list.hpp"
#include "core/action.hpp"
#include "core/event.hpp"
#include "core/followers/follower.hpp"
#include "core/nodes/bisect.hpp"
#include "core/nodes/ledger.hpp"
#include "core/policy.hpp"
#include "core/publish/goodput.hpp"
#include "core/recover/experiment.hpp"
#include "core/recover/resume_trail.hpp"
#include "core/signals/loss.hpp"
#include "core/signals/phase_durations.hpp"
#include "core/signals/throughput.hpp"
#include "core/supply/submission.hpp"
#include "core/training/finished.hpp"
#include "core/training/held.hpp"
#include "core/training/idle.hpp"
#include "core/training/queued.hpp"
#include "core/training/recovering.hpp"
#include "core/training/starting.hpp"
#include "core/training/stopped.hpp"
#include "core/training/stopping.hpp"
#include "core/training/suspect.hpp"
#include "core/training/training.hpp"
#include "wire/agent_event.hpp"

namespace stoker::core {

inline constexpr int kStateSchema = 1;

using TrainingState =
    std::variant<training::Idle, training::Queued, training::Starting, training::Training,
                 training::Suspect, training::Stopping, training::Recovering, training::Held,
                 training::Finished, training::Stopped>;

constexpr const char* state_name(const TrainingState& state) {
  return std::visit([](const auto& s) { return std::decay_t<decltype(s)>::kKind; }, state);
}

// How an attempt ended, as its agents said.
struct Outcome {
  Attempt attempt;
  bool all_zero = false;
  int code = 0;
  Rank rank;
  NodeName node;
  bool ordered = false;  // the ranks had been ordered to exit
  STOKER_FIELDS(Outcome, attempt, all_zero, code, rank, node, ordered)
};

// The running generation: one job start that owns the run.
struct LiveGeneration {
  Generation generation, parent;
  Token token;
  JobId job;
  OrderNumber order;
  NodeList nodes;              // of the allocation
  std::vector<NodeName> lost;  // whose agent is gone, or that were taken out of the attempts
  std::uint32_t joined = 0;    // agents that spoke up
  Attempt attempt;
  NodeList attempt_nodes;
  std::uint32_t world_size = 0;
  Iteration loaded;  // where the attempt resumed
  Iteration best;    // highest iteration that the run had completed when it began
  Instant attempt_at;
  Attempt failed;  // the last attempt that a failure was counted for
  bool lead_silent = false;
  std::optional<Outcome> outcome;     // of the newest attempt
  std::optional<Instant> goodbye_at;  // the lead left: every process of the generation is gone
  std::optional<int> goodbye_code;
  Instant probe_at;          // the next probe of its job, when one is wanted
  std::uint32_t probes = 0;  // asked for in the present silence
  STOKER_FIELDS(LiveGeneration, generation, parent, token, job, order, nodes, lost, joined, attempt,
                attempt_nodes, world_size, loaded, best, attempt_at, failed, lead_silent, outcome,
                goodbye_at, goodbye_code, probe_at, probes)
};

// A generation whose task was reported ended before its lead had exited: should its ranks go on, it
// is not over.
struct Over {
  LiveGeneration live;
  Instant at;
  Iteration iteration;  // the newest that was heard of then
  STOKER_FIELDS(Over, live, at, iteration)
};

// The newest digest, as status shows it. Ages are as of `at`.
struct Progress {
  Instant at;
  wire::Phase phase = wire::Phase::Startup;
  Instant phase_since;
  Instant oldest, newest;  // of the ranks' last progress, on our clock
  Iteration iteration, slowest;
  std::uint64_t total = 0, samples = 0, tokens = 0;
  std::optional<double> loss;
  double learning_rate = 0, gradient_norm = 0, tflops = 0;
  double step_ms = 0;
  double gpu_watts = 0;  // of all GPUs of the attempt; 0 = not measured
  Duration deadline{};   // of the oldest rank, in its phase
  STOKER_FIELDS(Progress, at, phase, phase_since, oldest, newest, iteration, slowest, total,
                samples, tokens, loss, learning_rate, gradient_norm, tflops, step_ms, gpu_watts,
                deadline)
};

struct LossPoint {
  std::uint64_t iteration = 0;
  double loss = 0;
  STOKER_FIELDS(LossPoint, iteration, loss)
};

struct CheckpointFacts {
  Iteration iteration;
  Instant at;
  WallTime wall;
  std::string name;
  double longest_seconds = 0;                 // of all saves so far
  std::map<std::uint64_t, Generation> known;  // of our ancestry: what a rollback can name
  Histogram intervals;                        // between saves
  Iteration archived;                         // newest one whose copy was read back
  Instant archived_at;
  std::string archived_path;
  STOKER_FIELDS(CheckpointFacts, iteration, at, wall, name, longest_seconds, known, intervals,
                archived, archived_at, archived_path)
};

struct Budget {
  std::uint32_t spent = 0;             // of restarts.total; earned back by time in progress
  std::uint32_t without_progress = 0;  // failures since the last new best iteration
  std::uint32_t restarts = 0;          // all there ever were
  Iteration best;                      // highest iteration ever completed
  Instant earned_at;
  STOKER_FIELDS(Budget, spent, without_progress, restarts, best, earned_at)
};

// The failure that is being recovered from.
struct Incident {
  std::string kind;
  Instant since;
  WallTime wall;
  Iteration iteration;  // reached before it
  Iteration checkpoint;
  STOKER_FIELDS(Incident, kind, since, wall, iteration, checkpoint)
};

// The last crash by a rank's own fault: the same error at the same iteration again is
// not bad luck.
struct Crash {
  std::string words;  // its last line, without digits
  Iteration iteration;
  bool moved = false;  // the attempt had completed an iteration
  std::uint32_t same = 1;
  STOKER_FIELDS(Crash, words, iteration, moved, same)
};

// A request that waits for its moment or for its acknowledgement.
struct SaveRequest {
  std::uint64_t counter = 0;
  std::string by;
  Instant asked_at, repeat_at;
  int repeats = 0;
  bool taken = false;  // acknowledged by the agents
  STOKER_FIELDS(SaveRequest, counter, by, asked_at, repeat_at, repeats, taken)
};
struct PlannedStop {
  std::optional<Instant> at;
  std::optional<Iteration> at_iteration;
  bool after_checkpoint = false;
  std::string by, reason;
  STOKER_FIELDS(PlannedStop, at, at_iteration, after_checkpoint, by, reason)
};

// A rollback of a script on its way: checked, then (its job is over) written.
struct GoingBack {
  Iteration to;
  std::string by;
  bool sure = false;     // the checkpoint is there; the job is ordered to exit
  bool written = false;  // the write was asked for
  STOKER_FIELDS(GoingBack, to, by, sure, written)
};

// What was true when the last weekly digest was made: the next one says what has changed since.
struct WeeklyMark {
  WallTime due;   // the hour that it was for; the same hour makes no second one
  WallTime made;  // epoch: no digest was made yet
  std::map<std::string, Duration> spent;
  std::map<std::string, CauseCost> costs;
  double node_hours = 0, all_node_hours = 0;
  Iteration iteration;
  STOKER_FIELDS(WeeklyMark, due, made, spent, costs, node_hours, all_node_hours, iteration)
};

struct RunState {
  RunPolicy policy;
  TrainingState training;
  Instant since;  // of the training state
  WallTime since_wall;
  std::string why;  // the sentence that led to it

  std::map<Token, supply::Submission> supply;
  std::uint32_t failed_submits = 0;
  std::vector<Instant> accepted;    // submissions since the last completed iteration
  std::optional<Over> over;         // the generation whose task the scheduler reported ended last
  std::vector<std::string> rivals;  // live jobs on its name or in its folders, none of its own
  bool without_exclusions = false;  // they left too few nodes; until a task runs
  OrderNumber order;                // newest order written
  std::vector<std::uint64_t> pins;  // of it: checkpoints that are never deleted
  std::vector<wire::FollowRule> follow;  // of it: nor these, until the daemon has heard of them
  double lr_scale = 1;                   // of the last rollback; holds until the next one
  std::optional<OrderNumber>
      exact_order;        // a rollback's order, until a checkpoint was saved beyond it
  wire::Control control;  // of the live generation: levels and counters
  std::optional<LiveGeneration> live;
  Generation newest;  // highest generation ever seen
  Progress progress;
  std::vector<LossPoint> losses;  // at most kLossPoints, thinned evenly
  std::uint64_t loss_stride = 1;
  signals::LossWatch loss;
  signals::SpeedWatch speed;
  Trail trail;                          // what was logged, and what a start is held against
  Bisect bisect;                        // the search for a slow node
  std::uint64_t searched = 0;           // suspects when the newest orders were written
  std::vector<Experiment> experiments;  // rollbacks, oldest first
  std::optional<GoingBack> going_back;  // of a script
  Goodput goodput;                      // where the time went
  std::map<std::string, PhaseFacts> phases;
  CheckpointFacts checkpoint;
  Budget budget;
  std::optional<Incident> incident;
  std::optional<Diagnosed> verdict;  // of the logs, for the newest attempt
  std::string failed_of;             // its class when the last failure was counted, "" = none
  std::optional<Crash> crash;
  std::optional<SaveRequest> save;
  std::optional<PlannedStop> planned_stop;
  std::optional<Iteration> save_at;  // `save --at-iteration`
  Instant interval_asked;            // when checkpoints.interval asked for a save last
  std::vector<NodeName> accused;     // excluded by this run's evidence since its best iteration
  Instant leftover_at;               // over, but a task runs: when it is cancelled (again)
  std::optional<Iteration> overdue_told;  // the checkpoint since which "save overdue" was reported
  std::uint32_t disk_full = 0;            // in a row
  std::optional<Instant> no_room_since;   // nothing can be written into the run directory
  std::uint32_t refused = 0;              // checkpoints refused in a row
  // Conditions beside the state.
  std::map<std::string, std::string> digests;  // TRAIN.yaml and setup of the newest generation
  bool finish_file = false;                    // the file of train.finished is there
  std::optional<wire::EndMark> end;            // of a generation whose lead has not left yet
  std::optional<Instant> resumed_live_at;      // a person asked to go on while nothing was held
  bool paused = false;
  bool observe_only = false;      // after a poisonous event, until a person resumes
  bool daemon_away = false;       // nothing was heard since the daemon came back
  std::uint32_t spend_level = 0;  // percent of budget.gpu_hours that was reported: 0, 80, 100
  WeeklyMark weekly;
  std::map<std::string, followers::Follower> followers;  // by name
  STOKER_FIELDS(RunState, policy, training, since, since_wall, why, supply, failed_submits,
                accepted, over, rivals, without_exclusions, order, pins, follow, lr_scale,
                exact_order, control, live, newest, progress, losses, loss_stride, loss, speed,
                trail, bisect, searched, experiments, going_back, goodput, phases, checkpoint,
                budget, incident, verdict, failed_of, crash, save, planned_stop, save_at,
                interval_asked, accused, leftover_at, overdue_told, disk_full, no_room_since,
                refused, digests, finish_file, end, resumed_live_at, paused, observe_only,
                daemon_away, spend_level, weekly, followers)
};

inline constexpr std::size_t kLossPoints = 60;

struct AlertState {
  std::string id;
  RunName run;
  std::string subject;  // what the incident is about besides the kind: a node, a path; may be ""
  Severity severity = Severity::Warning;
  std::string kind, summary, reason, command;
  WallTime since;
  Sequence seq;
  bool acknowledged = false;
  std::string acknowledged_by;
  bool quiet = false;  // shown, not sent: an alert of the same event reports it
  STOKER_FIELDS(AlertState, id, run, subject, severity, kind, summary, reason, command, since, seq,
                acknowledged, acknowledged_by, quiet)
};

struct Silence {
  std::string id;                            // "s12"
  std::map<std::string, std::string> match;  // run, kind, severity, node -> value
  Instant until;
  std::string by, reason;
  WallTime since, until_wall;
  STOKER_FIELDS(Silence, id, match, until, by, reason, since, until_wall)
};

// An effect that was asked for and has no result yet, or that failed and is tried again.
struct OpenEffect {
  RunName run;
  Action action;
  std::uint32_t failures = 0;
  STOKER_FIELDS(OpenEffect, run, action, failures)
};
struct Retry {
  Instant at;
  OpenEffect effect;
  STOKER_FIELDS(Retry, at, effect)
};

// The wall clock of this host was set.
struct ClockStep {
  Instant at;
  Duration by{};  // forward
  STOKER_FIELDS(ClockStep, at, by)
};

struct SiteState {
  int schema = kStateSchema;
  std::string build;
  Epoch epoch;
  Sequence seq;  // of the last event
  Instant now;
  WallTime wall;
  std::optional<ClockStep> clock_step;  // the last one
  std::map<RunName, RunState> runs;
  NodeLedger ledger;
  std::map<std::string, AlertState> alerts;  // open ones, by id
  std::vector<Silence> silences;
  std::map<EffectKey, OpenEffect> open;
  std::vector<Retry> retries;
  std::optional<Instant> blind_since;  // the scheduler gives no good answers
  std::string blind_why;
  std::map<std::string, double> disks_low;  // path -> free share
  STOKER_FIELDS(SiteState, schema, build, epoch, seq, now, wall, clock_step, runs, ledger, alerts,
                silences, open, retries, blind_since, blind_why, disks_low)
};

}  // namespace stoker::core
