// The embedded cluster as plain values: nodes, jobs (arrays) and their tasks, and the processes of
// a task on each of its nodes. The scheduler process owns one Cluster; the store keeps it; the pure
// functions in schedule.hpp and lifecycle.hpp say what follows from it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/json.hpp"
#include "common/time.hpp"
#include "core/event.hpp"

namespace stoker::embedded {

enum class Health { Up, Drain, Down };  // Drain: no new jobs, a running one goes on
enum class RunPhase { Starting, Running, Ended, Lost };  // Lost: the node died below it
// Why a running task is being ended by the scheduler.
enum class EndCause { None, Cancelled, TimeLimit, NodeFailed, Requeued };

}  // namespace stoker::embedded

template <>
struct stoker::EnumNames<stoker::embedded::Health> {
  static constexpr std::array names{"up", "drain", "down"};
};
template <>
struct stoker::EnumNames<stoker::embedded::RunPhase> {
  static constexpr std::array names{"starting", "running", "ended", "lost"};
};
template <>
struct stoker::EnumNames<stoker::embedded::EndCause> {
  static constexpr std::array names{"none", "cancelled", "time_limit", "node_failed", "requeued"};
};

namespace stoker::embedded {

inline constexpr std::uint32_t kMaxClusterNodes = 64;  // processes of one host: more is a mistake
inline constexpr std::uint32_t kMaxArrayTasks = 1000;  // SLURM's default MaxArraySize is 1001

struct Node {
  NodeName name;
  Health health = Health::Up;
  std::string reason;  // why it is drained or down
  STOKER_FIELDS(Node, name, health, reason)
};

// What a client submits. Times are durations from now on; `begin` as --begin of sbatch
// (begin_time.hpp), `dependency` as --dependency (afterany and singleton only).
struct SubmitJob {
  static constexpr const char* kKind = "submit";
  Token token;
  std::string name;               // the job's name: what singleton compares
  std::uint32_t array_tasks = 1;  // tasks 1..array_tasks
  std::uint32_t throttle = 1;     // %k: how many of them may run at a time
  std::uint32_t nodes = 1;
  Duration time_limit{};
  Duration signal_before{};     // 0 = no signal before the wall
  std::string signal = "USR1";  // sent to the agents that long before the wall
  Duration kill_wait = 30s;     // from TERM to KILL
  bool no_kill = false;         // the job survives the loss of a node
  bool background = false;      // starts only where no other job that waits could
  bool singleton = true;
  std::string dependency, begin;
  std::vector<NodeName> exclude;
  std::vector<std::string> argv;                   // of the agent, run once on every node
  std::map<std::string, std::string> environment;  // the whole one, without what a node adds
  std::string working_directory;
  std::uint32_t cluster_nodes = 0;  // the cluster's size; 0 = as large as needed plus two
  STOKER_FIELDS(SubmitJob, token, name, array_tasks, throttle, nodes, time_limit, signal_before,
                signal, kill_wait, no_kill, background, singleton, dependency, begin, exclude, argv,
                environment, working_directory, cluster_nodes)
};

struct Job {  // one submission: an array
  std::uint64_t id = 0;
  SubmitJob request;
  std::uint32_t uid = 0;
  WallTime submitted, begin;
  std::vector<JobId> after;  // afterany: task 0 = the whole array
  STOKER_FIELDS(Job, id, request, uid, submitted, begin, after)
};

struct NodeRun {  // a task's processes on one node
  NodeName node;
  RunPhase phase = RunPhase::Starting;
  int exit_code = 0, signal = 0;
  std::string why;  // "limit", "term", "lost", …; "" = it ended by itself
  STOKER_FIELDS(NodeRun, node, phase, exit_code, signal, why)
};

struct Task {
  JobId id;
  std::uint64_t raw_id = 0;  // SLURM_JOB_ID of the current start; 0 = never started
  core::JobState state = core::JobState::Pending;
  std::string reason = "None";
  bool held = false;
  std::uint32_t restart = 0;  // SLURM_RESTART_COUNT
  WallTime started, ends, ended;
  std::vector<NodeName> nodes;  // of the allocation now; a lost node leaves the list
  std::vector<NodeRun> runs;    // runs[0] is on the batch host
  EndCause cause = EndCause::None;
  WallTime ending_since;
  bool batch_host_lost = false;
  int exit_code = 0, signal = 0;
  std::uint32_t cancelled_by_uid = 0;
  bool cancelled_by_us = false;
  STOKER_FIELDS(Task, id, raw_id, state, reason, held, restart, started, ends, ended, nodes, runs,
                cause, ending_since, batch_host_lost, exit_code, signal, cancelled_by_uid,
                cancelled_by_us)

  [[nodiscard]] bool finished() const { return core::is_terminal(state); }
  [[nodiscard]] bool active() const {  // holds nodes
    return state == core::JobState::Running || state == core::JobState::Completing;
  }
};

struct Cluster {
  std::string id;             // random; part of every process's mark
  std::uint64_t next_id = 1;  // job ids only grow
  std::map<NodeName, Node> nodes;
  std::map<std::uint64_t, Job> jobs;
  std::map<JobId, Task> tasks;

  [[nodiscard]] const Task* task_on(const NodeName& node) const;  // active and holding it
};

// n01, n02, … n10, … as many digits as needed, at least two.
NodeName node_name(std::uint32_t number);
// Adds nodes until there are `count`; never removes one.
void grow_nodes(Cluster& cluster, std::uint32_t count);
// In SLURM's words: IDLE, ALLOCATED, DRAINED, DRAINING, DOWN.
core::NodeSeen describe_node(const Cluster& cluster, const Node& node);
core::JobSeen describe_task(const Cluster& cluster, const Task& task);

}  // namespace stoker::embedded
