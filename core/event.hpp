// Event: everything that the decider can learn. Time is in the event; nothing else informs core
// what time it is. Edges, not samples: the heartbeats of thousands of ranks arrive folded (Digest),
// a scheduler's answer only when something changed. To add one: a struct here with kKind, its place
// in EventBody, and a case in core/step.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/json.hpp"
#include "common/node_list.hpp"
#include "common/remedy.hpp"
#include "core/policy.hpp"
#include "wire/agent_event.hpp"

namespace stoker::core {

// The scheduler's states, in SLURM's words. Completing counts as not terminal.
enum class JobState {
  Pending,
  Configuring,
  Running,
  Suspended,
  Completing,
  Requeued,
  Completed,
  Failed,
  Cancelled,
  Timeout,
  NodeFail,
  Preempted,
  BootFail,
  Deadline,
  OutOfMemory
};
constexpr bool is_terminal(JobState s) {
  return s >= JobState::Completed;
}

}  // namespace stoker::core

template <>
struct stoker::EnumNames<stoker::core::JobState> {
  static constexpr std::array names{"PENDING",    "CONFIGURING", "RUNNING",      "SUSPENDED",
                                    "COMPLETING", "REQUEUED",    "COMPLETED",    "FAILED",
                                    "CANCELLED",  "TIMEOUT",     "NODE_FAIL",    "PREEMPTED",
                                    "BOOT_FAIL",  "DEADLINE",    "OUT_OF_MEMORY"};
};

namespace stoker::core {

// ---- operators
struct RunAdded {  // a run is put under supervision, or taken up again with a changed policy
  static constexpr const char* kKind = "run_added";
  RunPolicy policy;
  std::string by;
  Generation newest{};  // in its directory, of a life before; ends up to it are lifted
  STOKER_FIELDS(RunAdded, policy, by, newest)
};
struct PolicyChanged {
  static constexpr const char* kKind = "policy_changed";
  RunPolicy policy;
  std::string by;
  STOKER_FIELDS(PolicyChanged, policy, by)
};
// A verb of the command line (wire/socket.hpp), of a switch file, or of the daemon's own timer for
// `--at`.
struct OperatorAsked {
  static constexpr const char* kKind = "operator_asked";
  std::string
      verb;  // save stop kill pause resume restart rollback exclude include stacks ack silence
  std::map<std::string, std::string> arguments;
  std::vector<NodeName> nodes;
  std::string by;  // "alice" as the kernel says
  std::string reason;
  std::string via;  // "socket" | "switch file"
  STOKER_FIELDS(OperatorAsked, verb, arguments, nodes, by, reason, via)
};
struct SwitchRefused {  // a hostile or unreadable switch file: symbolic link, FIFO, huge, not of
                        // the group
  static constexpr const char* kKind = "switch_refused";
  std::string name, why;
  STOKER_FIELDS(SwitchRefused, name, why)
};

// ---- daemon
struct DaemonStarted {  // of this site; `away` = since the last journalled event, by wall clock
  static constexpr const char* kKind = "daemon_started";
  std::string build;
  Epoch epoch;
  Duration away{};
  bool clean = false;  // the one before had said goodbye
  STOKER_FIELDS(DaemonStarted, build, epoch, away, clean)
};
struct DaemonStopping {
  static constexpr const char* kKind = "daemon_stopping";
  STOKER_NO_FIELDS(DaemonStopping)
};
struct Tick {  // a moment that wake_at() named has come; an up-to-date Digest was
               // stepped just before
  static constexpr const char* kKind = "tick";
  STOKER_NO_FIELDS(Tick)
};
// The hour of the weekly digest has come (core/publish/weekly.hpp), or came while no daemon ran; or
// an operator asked for one beside the weekly ones.
struct WeeklyDue {
  static constexpr const char* kKind = "weekly_due";
  WallTime due;
  std::string asked_by;  // "" = its hour has come
  STOKER_FIELDS(WeeklyDue, due, asked_by)
};
struct Quarantined {  // an input that aborted the daemon twice was set aside; the run is
                      // observe-only until a person acts
  static constexpr const char* kKind = "quarantined";
  std::string what, digest;
  STOKER_FIELDS(Quarantined, what, digest)
};

// ---- scheduler: present > proven terminal > unknown
struct JobSeen {  // a job of ours, present in a good answer, or proven terminal; sent when anything
                  // here changed
  static constexpr const char* kKind = "job_seen";
  Token token;
  JobId job;
  std::uint32_t restart = 0;
  JobState state = JobState::Pending;
  std::string reason;  // "Resources", "JobHeldUser", …
  NodeList nodes;
  std::optional<WallTime> ends_at;  // the wall of a running job
  int exit_code = 0, signal = 0;    // terminal ones
  std::uint32_t cancelled_by_uid = 0;
  bool cancelled_by_us = false;
  bool forgotten =
      false;  // not seen: concluded, since the scheduler does not know the job any more
  STOKER_FIELDS(JobSeen, token, job, restart, state, reason, nodes, ends_at, exit_code, signal,
                cancelled_by_uid, cancelled_by_us, forgotten)
};
// The scheduler does not know the job any more: it said so twice, a minute apart, while it answered
// for our cluster; or it has given the id away to another job. Not how the job ended: agents that
// still speak are alive.
struct JobGone {
  static constexpr const char* kKind = "job_gone";
  Token token;
  JobId job;
  std::string why;
  STOKER_FIELDS(JobGone, token, job, why)
};
// Live jobs that carry the run's name or whose script lies in its folders, and are none of its own:
// a colleague's, another stokerd's, submitted by hand. Sent when they changed; empty: none any
// more.
struct RivalsSeen {
  static constexpr const char* kKind = "rivals_seen";
  std::vector<std::string> jobs;  // "job 4711 of bob (RUNNING): it has the run's name"
  STOKER_FIELDS(RivalsSeen, jobs)
};
// What SLURM and the job's nodes answered to a probe. What was not answered proves nothing.
struct JobProbed {
  static constexpr const char* kKind = "job_probed";
  Token token;
  JobId job;
  bool told = false;                      // SLURM listed its steps, squeue and scontrol alike
  std::vector<std::string> steps;         // besides its batch script and our probes; at most 16
  bool batch_left = false;                // its batch script's node is none of the job's any more
  std::uint32_t asked = 0, answered = 0;  // nodes, from inside
  std::uint32_t processes = 0;            // of the job, on the nodes that answered
  std::vector<NodeName> mute;             // asked and without an answer; at most 16
  std::string stacks;                     // folder in the run directory; "" = none were written
  std::string why;                        // what was not answered
  STOKER_FIELDS(JobProbed, token, job, told, steps, batch_left, asked, answered, processes, mute,
                stacks, why)
};
struct SchedulerBlind {  // failed, slow, empty or torn answers since `since`; proves nothing about
                         // any job
  static constexpr const char* kKind = "scheduler_blind";
  std::string why;
  STOKER_FIELDS(SchedulerBlind, why)
};
struct SchedulerSees {  // good answers again
  static constexpr const char* kKind = "scheduler_sees";
  STOKER_NO_FIELDS(SchedulerSees)
};
struct NodeSeen {  // a node's state as the scheduler reports it, when it changed
  static constexpr const char* kKind = "node_seen";
  NodeName node;
  bool usable = true;
  std::string state, reason;
  STOKER_FIELDS(NodeSeen, node, usable, state, reason)
};

// Nodes are host lists ("n[01-48]"): an answer names thousands, and stays in the state.
struct Partition {
  std::string name;
  bool by_default = false;  // where a job names none
  std::string nodes;
  STOKER_FIELDS(Partition, name, by_default, nodes)
};
struct Reservation {
  std::string name;
  std::string nodes;
  WallTime from, until;
  STOKER_FIELDS(Reservation, name, nodes, from, until)
};
// The cluster's partitions and reservations, by a whole answer; sent when it changed.
struct CalendarSeen {
  static constexpr const char* kKind = "calendar_seen";
  std::vector<Partition> partitions;
  std::vector<Reservation> reservations;   // by their beginning
  std::optional<std::uint32_t> max_array;  // MaxArraySize: an array's numbers are below it
  STOKER_FIELDS(CalendarSeen, partitions, reservations, max_array)
};

// ---- agents
struct AgentSaid {  // one line of lead.jsonl or agents/*.jsonl, except beats
  static constexpr const char* kKind = "agent_said";
  Generation generation;
  std::string from;  // "lead" or the node's name
  wire::AgentEvent event;
  // A later line that came with it reports a newer attempt: the agents have restarted the ranks.
  bool overtaken = false;
  STOKER_FIELDS(AgentSaid, generation, from, event, overtaken)
};
// Beats folded by watch/: a function of the bytes between two cursors and the digest before. At
// most one in 30 s (or half of hang.floor, if that is less), at once on an edge, before each
// Tick, and never unchanged.
struct Digest {
  static constexpr const char* kKind = "digest";
  Generation generation;
  wire::Beat last;               // newest beat; its ages are as of `event.at`: arrival time counts
  wire::Quantiles iteration_ms;  // of all iterations completed since the digest before
  wire::StepLosses losses;       // of the same
  STOKER_FIELDS(Digest, generation, last, iteration_ms, losses)
};
struct LeadSilent {  // no new line in lead.jsonl for this long (counted again when the daemon was
                     // away)
  static constexpr const char* kKind = "lead_silent";
  Generation generation;
  Duration age{};
  STOKER_FIELDS(LeadSilent, generation, age)
};
struct LeadSpeaks {
  static constexpr const char* kKind = "lead_speaks";
  Generation generation;
  STOKER_FIELDS(LeadSpeaks, generation)
};

// ---- logs
// What the logs say together, as diagnose/ ranks it: one cause. Sent when it changed; `healthy`
// takes the one before back (the training went on).
struct Diagnosed {
  static constexpr const char* kKind = "diagnosed";
  Generation generation;  // 0: of a training without agents
  Attempt attempt;
  std::string failure_class;  // diagnose/cause/failure_class.hpp
  double confidence = 0;      // 0..1
  bool fatal = false;         // something ended or will end of it
  bool from_kernel = false;   // the kernel's own word
  std::string summary;        // one sentence
  RunAction action = RunAction::None;
  std::string advice;
  std::optional<Rank> rank;
  std::vector<NodeName> nodes;        // that the cause points at, the root's first
  std::vector<NodeName> exclude;      // of them those that are to be left out
  std::vector<std::string> evidence;  // "main.log:123: text", the root's first; at most 5
  STOKER_FIELDS(Diagnosed, generation, attempt, failure_class, confidence, fatal, from_kernel,
                summary, action, advice, rank, nodes, exclude, evidence)
};
struct LogFollowed {  // a log of watch.logs or watch.kernel_logs was found, or what is wrong with
                      // it
  static constexpr const char* kKind = "log_followed";
  std::string path, detail;
  STOKER_FIELDS(LogFollowed, path, detail)
};

// ---- effects
struct EffectDone {
  static constexpr const char* kKind = "effect_done";
  EffectKey key;
  std::string action;  // kind of the action
  JobId job;           // of a submit
  std::string detail;
  STOKER_FIELDS(EffectDone, key, action, job, detail)
};
struct EffectFailed {  // proven not to have happened
  static constexpr const char* kKind = "effect_failed";
  EffectKey key;
  std::string action, why;
  bool no_room = false;      // because a disk is full or a quota spent
  bool starved = false;      // a submission that only its exclusions make impossible
  bool burns = false;        // a submission whose job a kill switch would end at once
  std::string by_hand = {};  // refused for lack of rights: what somebody who has them runs
  STOKER_FIELDS(EffectFailed, key, action, why, no_room, starved, burns, by_hand)
};
struct EffectUnknown {  // asked, no answer (time-out, or the daemon died in between): may have
                        // happened
  static constexpr const char* kKind = "effect_unknown";
  EffectKey key;
  std::string action, why;
  STOKER_FIELDS(EffectUnknown, key, action, why)
};
// Result of looking a token up in the queue (and accounting) after EffectUnknown of a submit.
struct TokenLookedUp {
  static constexpr const char* kKind = "token_looked_up";
  Token token;
  bool found = false;
  JobId job;
  STOKER_FIELDS(TokenLookedUp, token, found, job)
};
struct DiskLow {
  static constexpr const char* kKind = "disk_low";
  std::string path;
  double free_share = 0;
  bool low = true;  // false: enough again
  STOKER_FIELDS(DiskLow, path, free_share, low)
};
// The daemon itself cannot write into a run directory for lack of room, or can again. (DiskLow
// warns long before; a quota shows only here.)
struct DiskFull {
  static constexpr const char* kKind = "disk_full";
  std::string path, why;
  bool full = true;
  STOKER_FIELDS(DiskFull, path, why, full)
};
// A part of the run that other users can make hang does not answer: it is passed over until it
// does. Or it answers again.
struct FolderSilent {
  static constexpr const char* kKind = "folder_silent";
  std::string what;     // as text: "the switch folder /runs/demo/switch"
  Duration lasts{};     // of the silence so far
  bool orders = false;  // switch files lie there
  bool silent = true;
  bool own = false;  // the run directory: nothing of the run is read or written
  STOKER_FIELDS(FolderSilent, what, lasts, orders, silent, own)
};
// The file of `train.finished: {file: …}` appeared, or is gone again.
struct FinishFileSeen {
  static constexpr const char* kKind = "finish_file_seen";
  std::string path;
  bool there = true;
  STOKER_FIELDS(FinishFileSeen, path, there)
};

// gen-*/end.json of the newest generation is there, or was refused.
struct EndSeen {
  static constexpr const char* kKind = "end_seen";
  wire::EndMark mark;
  std::string refused;  // why it does not count; "" = it counts
  STOKER_FIELDS(EndSeen, mark, refused)
};

// The command of a follower's job is over (wire/follow_files.hpp); or its job is, and its folder
// was read and holds no end of it.
struct FollowerEnded {
  static constexpr const char* kKind = "follower_ended";
  Token token;
  int code = 0, signal = 0;
  std::string words;     // its last line, or why it did not run
  bool ordered = false;  // its job was ordered to end
  double seconds = 0;
  bool missing = false;
  STOKER_FIELDS(FollowerEnded, token, code, signal, words, ordered, seconds, missing)
};

using EventBody =
    std::variant<RunAdded, PolicyChanged, OperatorAsked, SwitchRefused, DaemonStarted,
                 DaemonStopping, Tick, Quarantined, JobSeen, JobGone, SchedulerBlind, SchedulerSees,
                 NodeSeen, AgentSaid, Digest, LeadSilent, LeadSpeaks, Diagnosed, LogFollowed,
                 EffectDone, EffectFailed, EffectUnknown, TokenLookedUp, DiskLow, DiskFull,
                 FinishFileSeen, RivalsSeen, JobProbed, EndSeen, WeeklyDue, FollowerEnded,
                 CalendarSeen, FolderSilent>;

struct Event {
  Instant at;  // engine time; never runs backwards
  WallTime wall;
  RunName run;  // empty: the whole site
  EventBody body;
  STOKER_FIELDS(Event, at, wall, run, body)
};

constexpr const char* kind_of(const EventBody& body) {
  return std::visit([](const auto& b) { return std::decay_t<decltype(b)>::kKind; }, body);
}

}  // namespace stoker::core

STOKER_JSON_ONCE(stoker::core::Event)
