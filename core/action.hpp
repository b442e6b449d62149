// Action: an effect as data. The engine journals the decision that holds it first, then performs it
// through a port; results come back as events. Every action is idempotent by its key. Each comment
// says what must be durable before it: always the journal row of its decision; beyond that only
// what is written there.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "common/json.hpp"
#include "core/policy.hpp"
#include "wire/control.hpp"
#include "wire/orders.hpp"

namespace stoker::core {

// orders/<number>.json; an existing file with the same content is success, with other content a
// bug.
struct WriteOrders {
  static constexpr const char* kKind = "write_orders";
  wire::Orders orders;
  STOKER_FIELDS(WriteOrders, orders)
};

// Submits an array. The orders must be on disk. The token is looked up before a repetition.
struct Submit {
  static constexpr const char* kKind = "submit";
  Token token;
  OrderNumber order;
  std::uint32_t array_tasks = 1;  // 1..array_tasks, one at a time
  std::uint32_t nodes = 1;        // with spares
  Duration time_limit{};
  std::vector<NodeName> exclude;
  std::string begin;
  std::string dependency;       // "afterany:123", "" = none; singleton is always asked for
  bool hold_for_spares = true;  // --no-kill: the allocation survives the loss of a node
  bool unreserved = false;      // without the --reservation of scheduler.extra: it is over
  STOKER_FIELDS(Submit, token, order, array_tasks, nodes, time_limit, exclude, begin, dependency,
                hold_for_spares, unreserved)
};

// Submits a follower's job: its order is written first, so that a job of an earlier try leaves. The
// token is looked up before: repeated, it submits nothing twice.
struct RunFollower {
  static constexpr const char* kKind = "run_follower";
  Token token;
  std::string follower;  // name in RunPolicy::after
  Iteration iteration;
  Generation generation;
  std::string checkpoint;    // directory name; "" = of a foreign format
  std::uint32_t number = 1;  // of the try
  std::vector<NodeName> exclude;
  STOKER_FIELDS(RunFollower, token, follower, iteration, generation, checkpoint, number, exclude)
};

// Deletes the folder of a follower's tries that are over: the order first, so that a late job runs
// nothing, and only files of ours. One that is gone: success.
struct RemoveFollowFolder {
  static constexpr const char* kKind = "remove_follow_folder";
  std::string follower;
  Iteration iteration;
  Generation generation;
  STOKER_FIELDS(RemoveFollowFolder, follower, iteration, generation)
};

struct Cancel {  // the task, or the whole array; of a job that is gone: success
  static constexpr const char* kKind = "cancel";
  Token token;
  JobId job;
  bool whole_array = false;
  bool pending_only = false;  // leave a running task alone
  STOKER_FIELDS(Cancel, token, job, whole_array, pending_only)
};

struct SetExclusions {  // of the pending tasks of an array: the whole list
  static constexpr const char* kKind = "set_exclusions";
  Token token;
  JobId job;
  std::vector<NodeName> nodes;
  STOKER_FIELDS(SetExclusions, token, job, nodes)
};

struct SignalJob {  // to the processes of the task's steps, not to its batch script; of a job that
                    // is gone: success
  static constexpr const char* kKind = "signal_job";
  Token token;
  JobId job;
  std::string signal;  // "USR1"
  STOKER_FIELDS(SignalJob, token, job, signal)
};

// The switch file of a training without agents (train.kill_switch): made, or moved aside. One that
// a person has put there is left as it is.
struct SetKillSwitch {
  static constexpr const char* kKind = "set_kill_switch";
  static constexpr const char* kPersons = "set by ";  // begins EffectDone::detail then
  std::string path;
  bool there = true;
  STOKER_FIELDS(SetKillSwitch, path, there)
};

// Asks SLURM which steps it still has of a running job and, of a script's, its nodes from inside
// (`srun --overlap`): how many processes of the job live there, with their stacks. Changes nothing.
struct ProbeJob {
  static constexpr const char* kKind = "probe_job";
  Token token;
  JobId job;
  std::vector<NodeName> nodes;  // asked from inside; empty: none
  STOKER_FIELDS(ProbeJob, token, job, nodes)
};

// Which checkpoint a script resumes from: the file that its format keeps for that is set to
// `iteration`, after the checkpoint was seen to be there; what the file said is kept beside it.
// Before a write, no job of the run may be live.
struct SetResumePoint {
  static constexpr const char* kKind = "set_resume_point";
  std::string format, directory;  // absolute
  Iteration iteration;
  bool write = false;  // false: only whether it could be done
  STOKER_FIELDS(SetResumePoint, format, directory, iteration, write)
};

// What the files below a folder are: names, sizes, times of change, folded into one line
// (EffectDone::detail). Two looks that say the same: nothing was written in between.
struct LookAtTree {
  static constexpr const char* kKind = "look_at_tree";
  std::string path;  // absolute
  STOKER_FIELDS(LookAtTree, path)
};

// Takes a node out of service for everybody, or (lift) takes our own note away again. A node that
// is out already, or whose note is another's, is left as it is: success.
struct DrainNode {
  static constexpr const char* kKind = "drain_node";
  static constexpr const char* kNote = "stoker: ";  // begins our notes in SLURM's Reason
  SchedulerKind scheduler = SchedulerKind::Slurm;
  NodeName node;
  std::string why;  // behind kNote
  bool lift = false;
  STOKER_FIELDS(DrainNode, scheduler, node, why, lift)
};

struct LookUpToken {
  static constexpr const char* kKind = "look_up_token";
  Token token;
  STOKER_FIELDS(LookUpToken, token)
};

struct WriteControl {  // control.json, replaced
  static constexpr const char* kKind = "write_control";
  wire::Control control;
  STOKER_FIELDS(WriteControl, control)
};

struct ConsumeSwitch {  // switch/<name> -> switch/.handled-<name>-<seq>
  static constexpr const char* kKind = "consume_switch";
  std::string name;
  STOKER_FIELDS(ConsumeSwitch, name)
};

struct SendAlert {  // to every sink of the routes that match; at least once, by key
  static constexpr const char* kKind = "send_alert";
  std::string id;  // stable for the incident: "<run>/<kind>/<seq of its first decision>"
  Severity severity = Severity::Warning;
  std::string alert_kind;  // rank_crash hang node_fault crash_loop scheduler_blind …
  std::string summary;     // one line
  std::string reason;      // the decision's sentence
  std::string command;     // the exact command to run, "" = nothing to do
  bool resolved = false;
  std::map<std::string, std::string> labels;  // run, node, generation
  std::string report;  // text to pass on, of several lines: a node's for its administrators
  std::string impact;  // what it costs; "" = nothing that is known
  std::string progress, curve;  // of the run at that moment: where it stands, its recent losses
  STOKER_FIELDS(SendAlert, id, severity, alert_kind, summary, reason, command, resolved, labels,
                report, impact, progress, curve)
};

using Action =
    std::variant<WriteOrders, Submit, Cancel, SetExclusions, SignalJob, SetKillSwitch, ProbeJob,
                 SetResumePoint, LookAtTree, DrainNode, LookUpToken, WriteControl, ConsumeSwitch,
                 SendAlert, RunFollower, RemoveFollowFolder>;

struct Intent {
  EffectKey key;  // "<run>/<seq of the journal row>/<ordinal>"
  RunName run;
  Action action;
  STOKER_FIELDS(Intent, key, run, action)
};

constexpr const char* kind_of(const Action& action) {
  return std::visit([](const auto& a) { return std::decay_t<decltype(a)>::kKind; }, action);
}

}  // namespace stoker::core

STOKER_JSON_ONCE(stoker::core::Intent)
