// What the lead agent and the nodes of one allocation say to each other: commands to a node,
// reports to the lead. Agents of one allocation are one build: no older versions are read. How the
// messages travel is in worker/agent/link/protocol.hpp.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/json.hpp"
#include "wire/agent_event.hpp"

namespace stoker::wire {

// Crash: a peer has died, nothing can be saved. Restart: end and start again (TERM, grace, KILL).
// SaveAndLeave, LeaveNow: levels of control.json.
enum class StopHow { Crash, Restart, SaveAndLeave, LeaveNow };

}  // namespace stoker::wire
template <>
struct stoker::EnumNames<stoker::wire::StopHow> {
  static constexpr std::array names{"crash", "restart", "save_and_leave", "leave_now"};
};
namespace stoker::wire {

// ---- lead -> node
struct Welcome {
  static constexpr const char* kKind = "welcome";
  std::string start;  // path of start.json, which holds the orders
  STOKER_FIELDS(Welcome, start)
};
struct ChoosePort {
  static constexpr const char* kKind = "choose_port";
  Attempt attempt;
  STOKER_FIELDS(ChoosePort, attempt)
};
// A snapshot of a rank's shard in a node's memory (memory_slot.hpp).
struct HeldSnapshot {
  Generation generation;
  Attempt attempt;  // that made it
  Iteration iteration;
  std::uint32_t shard = 0, shards = 1;
  STOKER_FIELDS(HeldSnapshot, generation, attempt, iteration, shard, shards)
};
struct SnapshotId {  // of the generation that runs
  Attempt attempt;
  Iteration iteration;
  STOKER_FIELDS(SnapshotId, attempt, iteration)
};
struct StartRanks {
  static constexpr const char* kKind = "start_ranks";
  Attempt attempt;
  std::uint32_t group_rank = 0, groups = 1;  // of this node among the nodes with ranks
  std::uint32_t ranks_per_node = 1;
  std::string master_address;
  std::uint32_t master_port = 0;
  bool set_load = false;  // STOKER_LOAD is given
  std::string load;       // absolute directory, "" = none
  std::uint32_t restarts = 0;
  std::optional<SnapshotId> memory;  // is tried before `load`
  STOKER_FIELDS(StartRanks, attempt, group_rank, groups, ranks_per_node, master_address,
                master_port, set_load, load, restarts, memory)
};
struct StopRanks {
  static constexpr const char* kKind = "stop_ranks";
  Attempt attempt;
  StopHow how = StopHow::Restart;
  STOKER_FIELDS(StopRanks, attempt, how)
};
struct SaveNow {
  static constexpr const char* kKind = "save_now";
  std::uint64_t value = 0;
  STOKER_FIELDS(SaveNow, value)
};
struct TakeStacks {
  static constexpr const char* kKind = "take_stacks";
  std::string directory;  // relative to the run directory
  STOKER_FIELDS(TakeStacks, directory)
};
struct BenchNode {
  static constexpr const char* kKind = "bench";
  int version = 1;
  bool disk = true;  // not where more nodes write at once than one file system is asked to bear
  Duration burn{};   // of the GPUs
  STOKER_FIELDS(BenchNode, version, disk, burn)
};
struct ListSnapshots {  // whose digests are right
  static constexpr const char* kKind = "list_snapshots";
  int version = 1;
  STOKER_FIELDS(ListSnapshots, version)
};
struct LeaveWith {
  static constexpr const char* kKind = "leave";
  int exit_code = 0;
  std::string why;
  STOKER_FIELDS(LeaveWith, exit_code, why)
};
struct Ping {
  static constexpr const char* kKind = "ping";
  int version = 1;
  STOKER_FIELDS(Ping, version)
};
using NodeCommand = std::variant<Welcome, ChoosePort, StartRanks, StopRanks, SaveNow, TakeStacks,
                                 BenchNode, ListSnapshots, LeaveWith, Ping>;

// ---- node -> lead
struct PortChosen {
  static constexpr const char* kKind = "port_chosen";
  Attempt attempt;
  std::uint32_t port = 0;
  std::string error;  // "" = chosen
  STOKER_FIELDS(PortChosen, attempt, port, error)
};
struct RankGone {  // exited; not yet its whole tree
  static constexpr const char* kKind = "rank_gone";
  RankExited exit;
  STOKER_FIELDS(RankGone, exit)
};
struct NodeClear {  // every process of the attempt on this node is proven gone, unless stuck
  static constexpr const char* kKind = "node_clear";
  Attempt attempt;
  std::string stuck;
  STOKER_FIELDS(NodeClear, attempt, stuck)
};
struct RankSample {
  Rank rank;
  bool reported = false;
  bool page = false;  // by its heartbeat page, not by its output
  Phase phase = Phase::Startup;
  std::int64_t phase_age_ms = 0, progress_age_ms = 0;
  Iteration iteration, checkpoint;
  std::uint64_t total = 0, consumed_samples = 0, consumed_tokens = 0, saves_answered = 0;
  std::optional<double> loss;
  double learning_rate = 0, gradient_norm = 0, tflops = 0;
  double iteration_ms = 0;      // of the last one
  std::uint64_t completed = 0;  // iterations since the sample before
  StepLosses losses;            // of those
  double compute_ms = 0;        // of the last one, without waits; 0 = unknown
  std::optional<bool> waiting;  // inside a collective; empty: unknown
  STOKER_FIELDS(RankSample, rank, reported, page, phase, phase_age_ms, progress_age_ms, iteration,
                checkpoint, total, consumed_samples, consumed_tokens, saves_answered, loss,
                learning_rate, gradient_norm, tflops, iteration_ms, completed, losses, compute_ms,
                waiting)
};
struct NodeBeat {  // at least once a second, also without ranks: a sign of life
  static constexpr const char* kKind = "node_beat";
  Attempt attempt;
  std::vector<RankSample> ranks;
  std::uint64_t free_memory_bytes = 0, free_shm_bytes = 0;
  double gpu_watts = 0;         // of the node's GPUs; 0 = not measured
  std::uint32_t standbys = 0;   // warm and ready
  std::uint32_t snapshots = 0;  // complete ones in its memory
  STOKER_FIELDS(NodeBeat, attempt, ranks, free_memory_bytes, free_shm_bytes, gpu_watts, standbys,
                snapshots)
};
struct NodeEvent {  // something of this node that is written as an event as it is
  static constexpr const char* kKind = "told";
  AgentBody body;
  STOKER_FIELDS(NodeEvent, body)
};
struct StacksDone {
  static constexpr const char* kKind = "stacks_done";
  std::string directory;
  std::uint32_t ranks = 0;
  STOKER_FIELDS(StacksDone, directory, ranks)
};
struct Benched {
  static constexpr const char* kKind = "benched";
  std::map<std::string, double> figures;  // what could be measured
  std::vector<GpuFigures> gpus;
  std::string note;  // why no GPU was tested
  STOKER_FIELDS(Benched, figures, gpus, note)
};
struct SnapshotsHeld {
  static constexpr const char* kKind = "snapshots_held";
  std::vector<HeldSnapshot> held;
  std::vector<std::string> damaged;  // what is wrong with others
  STOKER_FIELDS(SnapshotsHeld, held, damaged)
};
struct Signalled {  // the scheduler has sent the agent a signal: the end is near
  static constexpr const char* kKind = "signalled";
  int signal = 0;
  STOKER_FIELDS(Signalled, signal)
};
using NodeReport = std::variant<PortChosen, RankGone, NodeClear, NodeBeat, NodeEvent, StacksDone,
                                Benched, SnapshotsHeld, Signalled>;

}  // namespace stoker::wire
