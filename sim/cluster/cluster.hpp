// Cluster: nodes and SLURM's controller as it behaves: arrays one task at a time, singleton by
// name, --no-kill, KillWait, MinJobAge. It knows the truth; what it says goes through
// slurm_text.hpp.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/event.hpp"
#include "sim/universe/random.hpp"
#include "sim/universe/scenario.hpp"
#include "sim/universe/timeline.hpp"

namespace stoker::sim {

struct SimNode {
  bool up = true;
  bool told_down = false;  // the controller has noticed
  bool bad = false;        // its GPU fails again and again
  bool drained = false;    // an administrator wants no new job there
  std::string reason;      // of an administrator
};

// How an attempt of a task ended, as slurmdbd has it. Pending: no attempt has.
struct SimAccount {
  core::JobState state = core::JobState::Pending;
  int exit_code = 0, signal = 0;
  std::string node_list;
  bool resent = false;  // by a slurmctld that was restarted since
};

struct SimTask {
  core::JobState state = core::JobState::Pending;
  Instant started, ends_at, ended;
  Instant suspended;  // since when, while it is
  std::vector<NodeName> nodes;
  std::string node_list;  // the same as a hostlist
  int exit_code = 0, signal = 0;
  bool processes = false;     // its agents may still live
  std::uint64_t own = 0;      // its own job id; 0: it waits in the array's record
  std::uint32_t born = 0;     // its own record is the job's first, second, …; 0: none
  std::int64_t priority = 0;  // the higher one starts first; 0: held
  bool by_user = false;       // held by a user, who may release it, not by an administrator
  std::vector<NodeName> exclude;
  std::uint32_t restarts = 0;
  Instant queued;         // submitted or requeued
  Instant begin;          // not before, after a requeue
  bool unlisted = false;  // no answer but sacct's shows it any more
  bool purged =
      false;  // for it has ended long ago; else it was cancelled out of the array's record
  std::vector<NodeName> require;
  bool uncounted = false;   // lost a node since it started: not counted against the throttle
  bool counted_on = false;  // and slurmctld was restarted since: counted, and still when it is over
  bool resent = false;      // ended before the last restart of slurmctld, which reports it again
  SimAccount attempt_before;  // that was requeued
};

struct SimJob {
  std::uint64_t id = 0;
  std::string name, comment, command, directory;
  std::uint32_t tasks = 1, nodes = 1, split = 0;  // split: records of single tasks so far
  Duration limit{};
  std::vector<NodeName> exclude, require;  // as submitted
  bool no_kill = false;                    // --no-kill: the loss of a node is no end
  std::uint64_t after = 0;                 // afterany
  bool singleton = false;
  std::uint32_t throttle = 1;  // tasks at once
  std::uint32_t over_but_counted = 0;
  bool requeue = false;  // --requeue
  bool held = false;     // --hold
  Instant submitted, eligible;
  bool array = false;     // submitted with --array
  bool reloaded = false;  // its record had tasks when slurmctld was restarted
  // By task, from 1. 0: the array's record after its last waiting task was cancelled; it is
  // cancelled then, but a requeue starts it like a task.
  std::map<std::uint32_t, SimTask> state;
};

// slurmctld's answer about one record to an order, and the tasks that it concerns. An array has a
// record of its own for the tasks that wait in it, and one for each task that has left it.
enum class Verdict {
  Done,
  NoSuchJob,
  Pending,
  Over,
  Finished,
  NotPending,
  NotSuspended,
  NotRunning,
  InvalidNodes,
  Disabled,
  Denied
};
using Verdicts = std::map<Verdict, std::set<std::uint32_t>>;

class Cluster {
 public:
  struct Hooks {
    std::function<void(const SimJob&, std::uint32_t task)> started;
    // The task's processes are to die: `gently` with TERM and 30 s, else at once.
    std::function<void(const SimJob&, std::uint32_t task, bool gently)> killed;
    std::function<void(const std::string&)> say;
    // scancel --signal: its steps get a signal.
    std::function<void(const SimJob&, std::uint32_t task)> signalled = {};
  };
  Cluster(Timeline& time, Random& random, const ClusterShape& shape, Hooks hooks);

  std::uint64_t submit(SimJob job);
  // cluster_cancel.cpp. task 0: the whole array. False: nothing of it waits or runs.
  bool cancel(std::uint64_t id, std::uint32_t task, bool pending_only);
  void signal(std::uint64_t id, std::uint32_t task);
  // cluster_admin.cpp: what users (hold, requeue, exclusions) and administrators do.
  // task 0: the whole array.
  Verdicts hold(std::uint64_t id, std::uint32_t task, bool held);
  Verdicts requeue(std::uint64_t id, std::uint32_t task);
  Verdicts suspend(std::uint64_t id, std::uint32_t task, bool suspended);
  Verdicts set_exclusions(std::uint64_t id, std::uint32_t task, const std::vector<NodeName>& nodes);
  Verdicts require_nodes(std::uint64_t id, std::uint32_t task, const std::vector<NodeName>& nodes);
  Verdicts set_limit(std::uint64_t id, std::uint32_t task, Duration limit);
  Verdicts set_end(std::uint64_t id, std::uint32_t task, Instant end);
  enum class NodeWord { Down, Drain, Resume };
  // False: the node is in no state for that.
  bool set_node(const NodeName& node, NodeWord word, const std::string& reason);

  // Its batch script ended, with a code or by a signal.
  void task_left(std::uint64_t id, std::uint32_t task, int exit_code, int signal = 0);
  void take_for_dead(std::uint64_t id, std::uint32_t task);  // although it lives
  void node_dies(const NodeName& node);
  void repair(const NodeName& node);
  void repair_all();
  void set_slow(const NodeName& node, bool slow);
  void jam(Instant until);                // nothing starts until then
  bool preempt(const std::string& name);  // the running task of this name
  bool cut_limit(const std::string& name, Duration rest);
  void poll();               // starts what can start, ends what is over its limit, forgets
  void purge(Duration age);  // forgets what ended so long ago (MinJobAge)
  void controller_restarts();

  [[nodiscard]] const std::map<std::uint64_t, SimJob>& jobs() const { return jobs_; }
  std::map<std::uint64_t, SimJob>& jobs() { return jobs_; }
  // What slurmctld has forgotten and slurmdbd has not, where there is one.
  [[nodiscard]] const std::map<std::uint64_t, SimJob>& accounts() const { return accounts_; }
  std::map<NodeName, SimNode>& nodes() { return nodes_; }
  [[nodiscard]] bool is_up(const NodeName& node) const { return nodes_.at(node).up; }
  [[nodiscard]] const std::set<NodeName>& slow() const { return slow_; }
  // The running task of this name; null: none.
  std::pair<SimJob*, std::uint32_t> running(const std::string& name);

 private:
  using Record = std::vector<std::uint32_t>;  // its tasks
  static std::vector<Record> records_of(const SimJob& job);
  void split(SimJob& job, std::uint32_t task);
  void cancel_record(SimJob& job, const Record& record);
  void take_out(SimJob& job, const Record& record, std::uint32_t only);
  void end(SimJob& job, std::uint32_t task, core::JobState state, int exit_code, int signal);
  bool try_start(SimJob& job);
  void start(SimJob& job, std::uint32_t task, std::vector<NodeName> nodes);
  [[nodiscard]] bool may_start(const SimJob& job) const;
  [[nodiscard]] std::vector<std::uint32_t> startable(const SimJob& job) const;
  [[nodiscard]] std::vector<NodeName> nodes_for(const SimJob& job, const SimTask& task) const;
  void fail_node(SimJob& job, std::uint32_t task, const NodeName& node, bool node_is_dead);
  enum class Splits { No, Yes };
  template <class What>
  Verdicts on_records(std::uint64_t id, std::uint32_t task, Splits splits, What what);
  void put_back(SimJob& job, std::uint32_t task, core::JobState ended);

  Timeline& time_;
  Random& random_;
  ClusterShape shape_;
  Hooks hooks_;
  std::uint64_t last_id_ = 1000;
  std::int64_t last_priority_ = 0xffff0000;  // falls with each submission and each release
  Instant jammed_until_;
  std::map<std::uint64_t, SimJob> jobs_, accounts_;
  std::map<NodeName, SimNode> nodes_;
  std::set<NodeName> slow_;
};

}  // namespace stoker::sim
