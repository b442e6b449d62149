// RunState: all that the decider remembers of one run, in parts. To add something: a member of the
// part that it belongs to, and its name in that part's STOKER_FIELDS; a journal without it gives it
// its default. The parts are one flat object there, so no two of them have a member of one name.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/node_list.hpp"
#include "core/event.hpp"
#include "core/followers/follower.hpp"
#include "core/nodes/bisect.hpp"
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
  Iteration iteration;  // the newest that was known then
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

inline constexpr std::size_t kLossPoints = 60;

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

// A run's state in parts. In JSON they are one flat object: a part can be given another name, or a
// field another part, and journals of older builds are read as before.

// What people, the policy and a rollback asked for.
struct Asked {
  wire::Control control;                 // of the live generation: levels and counters
  OrderNumber order;                     // newest order written
  std::vector<std::uint64_t> pins;       // of it: checkpoints that are never deleted
  std::vector<wire::FollowRule> follow;  // of it: nor these, until the daemon knows of them
  double lr_scale = 1;                   // of the last rollback; holds until the next one
  // A rollback's order, until a checkpoint was saved beyond it.
  std::optional<OrderNumber> exact_order;
  std::optional<GoingBack> going_back;  // of a script
  std::optional<SaveRequest> save;
  std::optional<Iteration> save_at;  // `save --at-iteration`
  Instant interval_asked;            // when checkpoints.interval asked for a save last
  std::optional<PlannedStop> planned_stop;
  std::optional<Instant> resumed_live_at;  // a person asked to go on while nothing was held
  bool paused = false;
  STOKER_FIELDS(Asked, control, order, pins, follow, lr_scale, exact_order, going_back, save,
                save_at, interval_asked, planned_stop, resumed_live_at, paused)
};

// Its submissions and jobs at the scheduler.
struct Jobs {
  std::map<Token, supply::Submission> supply;
  std::uint32_t failed_submits = 0;
  std::vector<Instant> accepted;     // submissions since the last completed iteration
  std::optional<Over> over;          // the generation whose task the scheduler reported ended last
  std::optional<wire::EndMark> end;  // of a generation whose lead has not left yet
  Instant leftover_at;               // over, but a task runs: when it is cancelled (again)
  std::vector<std::string> rivals;   // live jobs on its name or in its folders, none of its own
  bool without_exclusions = false;   // they left too few nodes; until a task runs
  bool may_write = false;            // a script's lost job, until its files are seen to be still
  STOKER_FIELDS(Jobs, supply, failed_submits, accepted, over, end, leftover_at, rivals,
                without_exclusions, may_write)
};

// What the training's own figures show.
struct Health {
  Progress progress;
  std::vector<LossPoint> losses;  // at most kLossPoints, thinned evenly
  std::uint64_t loss_stride = 1;
  signals::LossWatch loss;
  signals::SpeedWatch speed;
  std::map<std::string, PhaseFacts> phases;
  CheckpointFacts checkpoint;
  std::optional<Iteration> overdue_told;  // the checkpoint since which "save overdue" was reported
  STOKER_FIELDS(Health, progress, losses, loss_stride, loss, speed, phases, checkpoint,
                overdue_told)
};

// Failures, and what is done about them.
struct Recovery {
  Budget budget;
  std::optional<Incident> incident;
  std::optional<Diagnosed> verdict;  // of the logs, for the newest attempt
  std::string failed_of;             // its class when the last failure was counted, "" = none
  std::optional<int> failed_signal;  // of the newest failure: Failure::signal (recover.hpp)
  std::optional<Crash> crash;
  std::vector<NodeName> accused;        // excluded by this run's evidence since its best iteration
  Bisect bisect;                        // the search for a slow node
  std::uint64_t searched = 0;           // suspects when the newest orders were written
  std::vector<Experiment> experiments;  // rollbacks, oldest first
  Trail trail;                          // what was logged, and what a start is held against
  std::uint32_t disk_full = 0;          // in a row
  std::uint32_t refused = 0;            // checkpoints refused in a row
  STOKER_FIELDS(Recovery, budget, incident, verdict, failed_of, failed_signal, crash, accused,
                bisect, searched, experiments, trail, disk_full, refused)
};

// What holds beside the training state.
struct Conditions {
  std::map<std::string, std::string> digests;  // TRAIN.yaml and setup of the newest generation
  std::optional<Instant> no_room_since;        // nothing can be written into the run directory
  std::optional<Instant> unread_since;         // the run directory does not answer
  bool finish_file = false;                    // the file of train.finished is there
  bool observe_only = false;                   // after a poisonous event, until a person resumes
  bool daemon_away = false;                    // no agent was read since the daemon came back
  Instant suspended_at, resumed_at;            // the scheduler stopped the job last; let it go on
  std::optional<Instant> read_again_at;        // the run directory answered again last
  WallTime calendar_looked;                    // when what waits was last compared with it
  OrderNumber calendar_order;                  // the newest submission that was compared
  bool reservation_seen = false;               // its own one was there
  WallTime reservation_told;                   // the end of its own one that was announced last
  // Neither commands to the agents nor their reports pass: their silence proves nothing.
  [[nodiscard]] bool is_cut_off() const { return no_room_since || unread_since; }
  STOKER_FIELDS(Conditions, digests, no_room_since, unread_since, finish_file, observe_only,
                daemon_away, suspended_at, resumed_at, read_again_at, calendar_looked,
                calendar_order, reservation_seen, reservation_told)
};

// Where time and GPU hours went.
struct Accounting {
  Goodput goodput;
  std::uint32_t spend_level = 0;  // percent of budget.gpu_hours that was reported: 0, 80, 100
  WeeklyMark weekly;
  STOKER_FIELDS(Accounting, goodput, spend_level, weekly)
};

struct RunState {
  RunPolicy policy;
  TrainingState training;
  Instant since;  // of the training state
  WallTime since_wall;
  std::string why;  // the sentence that led to it
  std::optional<LiveGeneration> live;
  Generation newest;                                     // highest generation ever seen
  std::map<std::string, followers::Follower> followers;  // by name

  Asked asked;
  Jobs jobs;
  Health health;
  Recovery recovery;
  Conditions conditions;
  Accounting accounting;

  static void each_part(auto& run, const auto& f) {
    f(run.asked), f(run.jobs), f(run.health);
    f(run.recovery), f(run.conditions), f(run.accounting);
  }
  // The names are those that the library's macros want.
  template <class J>
  friend void to_json(J& nlohmann_json_j, const RunState& nlohmann_json_t) {
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_TO, policy, training, since, since_wall,
                                             why, live, newest, followers))
    each_part(nlohmann_json_t, [&](const auto& p) { detail::call_to_json(nlohmann_json_j, p); });
  }
  template <class J>
  friend void from_json(const J& nlohmann_json_j, RunState& nlohmann_json_t) {
    const RunState nlohmann_json_default_obj{};
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_FROM_WITH_DEFAULT, policy, training,
                                             since, since_wall, why, live, newest, followers))
    each_part(nlohmann_json_t, [&](auto& p) { detail::call_from_json(nlohmann_json_j, p); });
  }
  friend bool operator==(const RunState&, const RunState&) = default;
};

}  // namespace stoker::core
