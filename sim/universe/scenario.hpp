// Scenario: what is simulated: a cluster, a training, how often what goes wrong, and events at
// given moments. Read from YAML with every mistake at its position (docs/recovery.md has the keys).
// To add a fault: its enumerator and name here, what it does in universe_faults.cpp.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "configs/schema/diagnostic.hpp"
#include "core/policy.hpp"
#include "sim/training/numbers.hpp"

namespace stoker::sim {

// What can go wrong by itself: names of `faults:`.
enum class Fault {
  RankCrash,       // one rank dies of a signal
  GpuFault,        // an Xid, the rank dies, the node keeps failing until it is repaired
  HangOne,         // one rank stands still, its peers wait for it
  HangAll,         // all stand still (a deadlock)
  NodeDeath,       // the node is gone with its agent
  LeadDeath,       // the node of the lead agent
  SlowNode,        // one node computes slower
  StorageStall,    // the file system stands: no words of the agents, no progress
  TornSave,        // a checkpoint that is damaged on disk
  DiskFull,        // nothing can be written into the run directory
  HeartbeatDelay,  // the agents' lines are seen late; the training goes on
  Zombie,          // the scheduler takes a living job for dead; its processes go on
  CrashLoop,       // every start of the ranks fails for a while
  StaleLines,      // lines of an older attempt turn up again
  SqueueFails,
  SqueueHangs,
  SqueueEmpty,
  SqueueStale,
  SqueueDoubled,
  SqueueShuffled,
  SqueueForeign,  // the queue of another cluster
  SqueueTorn,
  SubmitReplyLost,
  SubmitLost,
  SubmitRefused,
  ControllerDown,
  Scancel,         // an operator cancels the running task by hand
  Switch,          // an operator drops a switch file
  ClockJump,       // the wall clock of the daemon's host
  DaemonKill,      // kill -9 between any two steps
  SecondDaemon,    // a second daemon takes over while the first one only sleeps
  LossSpike,       // that is over by itself
  LossDiverges,    // and stays with the weights
  LossNan,         // so
  RateReset,       // each start loses the schedule of the learning rate (a stray `.orig` file)
  OtherData,       // each start reads the data in another order
  ReplicasDrift,   // what is saved no longer agrees with itself; the next load finds it
  QueueJam,        // nothing starts for hours
  Preempted,       // the task is taken away
  LimitCut,        // an administrator shortens the running task
  StaleHandles,    // the daemon's host gets ESTALE
  TornLines,       // lines are seen half, or as a hole, before they are seen whole
  WrongExclusion,  // an operator excludes nodes that are well
  LinkFlap,        // a node's link is down: its peers wait, or give up
  ClockSkew,       // the clock of the node that writes the agents' lines is another
  RowRemap,        // Xid 63, hours later Xid 64; the ranks live on
  Suspended,       // an administrator suspends the job, and lets it go on
  LateFiles,       // agents see what the daemon writes up to a minute late, and not in its order
  Order,           // an operator's request by the socket, each verb in turn
  KillSwitch,      // a person sets the kill switch of a script
  DaemonFreeze,    // its process stands still for a while, and goes on
  SlurmctldRestart
};

}  // namespace stoker::sim

template <>
struct stoker::EnumNames<stoker::sim::Fault> {
  static constexpr std::array names{
      "rank_crash",     "gpu_fault",       "hang_one",          "hang_all",
      "node_death",     "lead_death",      "slow_node",         "storage_stall",
      "torn_save",      "disk_full",       "heartbeat_delay",   "zombie",
      "crash_loop",     "stale_lines",     "squeue_fails",      "squeue_hangs",
      "squeue_empty",   "squeue_stale",    "squeue_doubled",    "squeue_shuffled",
      "squeue_foreign", "squeue_torn",     "submit_reply_lost", "submit_lost",
      "submit_refused", "controller_down", "scancel",           "switch",
      "clock_jump",     "daemon_kill",     "second_daemon",     "loss_spike",
      "loss_diverges",  "loss_nan",        "rate_reset",        "other_data",
      "replicas_drift", "queue_jam",       "preempted",         "limit_cut",
      "stale_handles",  "torn_lines",      "wrong_exclusion",   "link_flap",
      "clock_skew",     "row_remap",       "suspended",         "late_files",
      "order",          "kill_switch",     "daemon_freeze",     "slurmctld_restart"};
};

namespace stoker::sim {

inline constexpr std::size_t kFaults = EnumNames<Fault>::names.size();

// The guards that --break removes, one at a time.
enum class Guard {
  None,
  Fencing,
  BlindIsNotDead,
  SubmitToken,
  JournalFirst,
  Budget,
  ExclusionCap,
  VerifyCheckpoint,
  StalePhase,
  Lease,
  Dedupe,
  KeepGood,      // beyond the ten of the design: the last good checkpoint is never deleted
  KeepPinned,    // nor a pinned one, nor one that a start goes on from
  RollbackPin,   // a rollback by itself stops at a pinned one
  ArchiveFirst,  // what is to be copied to another disk is not deleted before
  EndMark,       // a job's first act reads whether the run is over
  FollowOnce,    // a follower's job runs its command once, and only if its order names it
  FollowProof,   // a follower's end is missing only where its folder can be read
  FollowKept,    // what a follower is to be run on stays, also before the daemon has heard of it
  LastLines,     // a script's last lines are read before its end is judged
  Stillness,     // after a lost node no script starts before logs and checkpoints are still
  // Of the lead (lead/):
  StaleAttempt,  // what a node reports of an attempt before changes nothing
  EarlyStart,    // no ranks start before those of the attempt before are proven gone
  Claim,         // one lead a task
  Lineage        // an attempt resumes from a checkpoint of its own ancestry
};

}  // namespace stoker::sim

template <>
struct stoker::EnumNames<stoker::sim::Guard> {
  static constexpr std::array names{
      "none",      "fencing",       "blind-is-not-dead", "submit-token", "journal-first",
      "budget",    "exclusion-cap", "verify-checkpoint", "stale-phase",  "lease",
      "dedupe",    "keep-good",     "keep-pinned",       "rollback-pin", "archive-first",
      "end-mark",  "follow-once",   "follow-proof",      "follow-kept",  "last-lines",
      "stillness", "stale-attempt", "early-start",       "claim",        "lineage"};
};

namespace stoker::sim {

struct ClusterShape {
  std::uint32_t nodes = 8;
  std::uint32_t gpus_per_node = 8;
  Duration queue_wait = 10min;    // mean, until a submission starts
  Duration task_gap = 1min;       // mean, between two tasks of an array
  Duration boot = 30s;            // from a task's start to the first word of its agents
  Duration repair = 12h;          // of a bad or dead node
  Duration remembers = 5min;      // how long squeue shows a job that has ended (MinJobAge)
  Duration completing = 5s;       // from a job's end to its final state
  bool tells_nodes = true;        // sinfo answers
  bool accounts = false;          // there is a slurmdbd, and sacct answers
  std::uint32_t release = 2205;   // of SLURM: 24.11 is 2411
  Duration requeue_delay = 121s;  // before a requeued task may start again (cred_expire + 1 s)
  Duration poll = 60s;  // how often the daemon looks at the queue while nothing is on its way
};

struct TrainingShape {
  Duration iteration = 10s;
  Duration startup = 60s, load = 60s;
  std::uint64_t save_every = 100;
  std::uint64_t memory_every = 0;  // iterations between snapshots in memory; 0: none are made
  Duration save = 20s;
  std::uint64_t evaluate_every = 0;
  Duration evaluation = 5min;
  std::uint64_t total = 100'000'000;
  double tflops = 150;
  bool tells_compute = false;  // heartbeat pages tell compute times without waits
  Duration digest_every = 10min;
  double step_noise = 0.002;  // of an iteration's time, from one digest to the next
  double daily_swing = 0;     // of it too, from night to afternoon
  NumbersShape numbers;
};

// The run is an adopted batch script. What it can do differs from seed to seed: each is the share
// of the seeds that have it.
struct ScriptShape {
  bool on = false;
  double kill_switch = 0;   // it leaves when a file is there
  double save_signal = 0;   // it saves when it gets a signal, and leaves in half of these seeds
  double exit_zero = 0;     // exit code 0 alone says that it is finished
  double array = 0;         // it has its own --array, of policy's `tasks`
  double order_at_end = 0;  // a request comes when it ends (a share of the ends)
};

struct PlannedFault {  // `events:`
  Duration at{};
  Fault fault = Fault::RankCrash;
  Duration lasts{};           // 0: as its kind usually does
  std::uint64_t iteration{};  // at this iteration instead of a moment
  bool in_evaluation = false;
  std::uint32_t times = 1;   // again, each time it has recovered
  double height = 0.5;       // of a loss, as a share of its level
  std::uint64_t climb{};     // iterations until it is so high, or a spike is over; 0: as usual
  std::uint32_t stubborn{};  // goings back that do not cure it
};

struct Expectation {
  Duration lost_at_most{};  // of training time, 0: no bound
  double ettr_at_least = 0;
  bool held = false;
  std::vector<std::string> alerts;  // kinds that must be raised
};

struct Scenario {
  std::string name, about;
  std::string source;         // of the story or of the rates
  std::string people;         // what the people did
  Duration lost_by_people{};  // training time, 0: unknown
  Duration length = 24h;      // simulated, at first with faults
  Duration heals = 12h;       // then without any: the run must come to rest
  ClusterShape cluster;
  TrainingShape training;
  ScriptShape script;
  core::RunPolicy policy;
  std::map<Fault, Duration> every;  // mean time between two of them
  std::vector<PlannedFault> events;
  Expectation expect;
};

// Errors by position; the scenario is usable only without any.
Scenario read_scenario(std::string_view text, const std::string& file,
                       configs::Diagnostics& errors);

}  // namespace stoker::sim
