// What agents say, one line an event: gen-*/lead.jsonl (the lead agent, for all) and
// gen-*/agents/<node>.jsonl (an agent whose lead is gone). A line is `{json}\t<crc32c of the json,
// 8 hex digits>\n`, written with one write(2), fsynced on edges. Ages, not timestamps, cross
// machines: `at` is the writer's own monotonic clock and is only compared with other lines of its
// boot. To add one: a struct with kKind and its place in AgentBody here, its handler in
// core/training/agents.cpp, the line of worker/agent that reports it, its word in
// sim/transcript/script_agents.cpp.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/json.hpp"
#include "common/optional_name.hpp"
#include "common/remedy.hpp"
#include "wire/end_mark.hpp"
#include "wire/heartbeat_page.hpp"
#include "wire/lineage.hpp"
#include "wire/resume_audit.hpp"
#include "wire/step_losses.hpp"

namespace stoker::wire {

struct Asked {  // counters of control.json that were asked of generations before
  std::uint64_t save = 0, stacks = 0, restart = 0;
  STOKER_FIELDS(Asked, save, stacks, restart)
};
struct GenerationStarted {  // first line of every lead.jsonl; all of it is in start.json
  static constexpr const char* kKind = "generation_started";
  Generation generation, parent;
  Iteration iteration;
  Token token;
  JobId job;
  std::uint32_t restart = 0;
  OrderNumber order;
  std::vector<NodeName> nodes;
  std::string boot_id;
  std::map<std::string, std::string> digests;  // Orders::digests, as frozen
  std::optional<Asked> asked;                  // what it found in control.json and takes as seen
  STOKER_FIELDS(GenerationStarted, generation, parent, iteration, token, job, restart, order, nodes,
                boot_id, digests, asked)
};

struct AgentJoined {
  static constexpr const char* kKind = "agent_joined";
  NodeName node;
  std::string host, boot_id;
  std::int64_t pid = 0;
  STOKER_FIELDS(AgentJoined, node, host, boot_id, pid)
};

struct AgentLost {  // its connection broke or it fell silent; whether the node is dead is for the
                    // decider
  static constexpr const char* kKind = "agent_lost";
  NodeName node;
  std::string why;
  STOKER_FIELDS(AgentLost, node, why)
};

struct DamagedCheckpoint {
  static constexpr const char* kKind = "damaged_checkpoint";
  std::string checkpoint;  // directory name
  std::string why;         // "shard-0001.bin: XXH3 is …, the manifest says …"
  STOKER_FIELDS(DamagedCheckpoint, checkpoint, why)
};

struct AttemptStarted {
  static constexpr const char* kKind = "attempt_started";
  Attempt attempt;
  std::vector<NodeName> nodes;  // that carry ranks, in rank order
  std::uint32_t world_size = 0;
  std::string load;              // checkpoint directory name, "" = from scratch or not known
  Iteration iteration;           // of that checkpoint
  bool standby = false;          // warm processes were used
  std::string why;               // "first start", "control restart 3: …", "orphaned for 10min"
  std::uint64_t restart = 0;     // the restart of control.json that it follows; 0 = none
  std::vector<NodeName> memory;  // whose memory holds what is loaded; empty: it is on the disk
  STOKER_FIELDS(AttemptStarted, attempt, nodes, world_size, load, iteration, standby, why, restart,
                memory)
};

struct RankExited {
  static constexpr const char* kKind = "rank_exited";
  Attempt attempt;
  NodeName node;
  Rank rank;
  int code = 0;
  int signal = 0;
  bool core = false;
  bool expected = false;   // after the agent had ordered it to exit
  std::string last_lines;  // the end of its output, at most 2 KiB
  STOKER_FIELDS(RankExited, attempt, node, rank, code, signal, core, expected, last_lines)
};

struct AttemptEnded {  // all processes of all ranks are proven gone
  static constexpr const char* kKind = "attempt_ended";
  Attempt attempt;
  bool all_zero = false;  // every rank exited with 0
  int worst_code =
      0;  // exit code that decides (cli.md), of the first rank that failed; 128+n for signal n
  Rank first_rank;  // the first rank that exited unasked
  NodeName first_node;
  bool told = false;  // its ranks had been ordered to exit: their exit 0 proves no finish
  std::optional<EndMark> end{};  // the run is over with it; the mark is on disk
  STOKER_FIELDS(AttemptEnded, attempt, all_zero, worst_code, first_rank, first_node, told, end)
};

struct PhaseEdge {  // the phase that most ranks are in has changed
  static constexpr const char* kKind = "phase";
  Attempt attempt;
  Phase phase = Phase::Startup;
  Iteration iteration;
  STOKER_FIELDS(PhaseEdge, attempt, phase, iteration)
};

struct RankAge {
  Rank rank;
  NodeName node;
  std::int64_t age_ms = 0;  // since its last progress, by its node's clock; -1 = never reported
  Phase phase = Phase::Startup;
  Iteration iteration;
  std::optional<bool> waiting = {};  // inside a collective; empty: unknown
  STOKER_FIELDS(RankAge, rank, node, age_ms, phase, iteration, waiting)
};

struct Quantiles {  // of durations in milliseconds
  std::uint64_t count = 0;
  double p50 = 0, p99 = 0, max = 0;
  STOKER_FIELDS(Quantiles, count, p50, p99, max)
};

// The rank that computes longest, without its waits for others: where all wait for one, only this
// says which.
struct SlowestRank {
  Rank rank;
  NodeName node;
  double ms = 0, median_ms = 0;  // of its last iteration, and of all ranks'
  STOKER_FIELDS(SlowestRank, rank, node, ms, median_ms)
};

struct Beat {  // folded heartbeats of all ranks, about once a second
  static constexpr const char* kKind = "beat";
  Attempt attempt;
  Phase phase = Phase::Startup;  // that most ranks are in
  std::int64_t phase_age_ms = 0;
  std::uint32_t ranks = 0;  // of the attempt
  std::uint32_t reporting =
      0;  // that have ever written their page, or whose output showed progress
  Iteration iteration_min, iteration_max;
  std::uint64_t total = 0, consumed_samples = 0, consumed_tokens = 0;
  std::optional<double> loss;
  double learning_rate = 0, gradient_norm = 0, tflops = 0;
  Quantiles iteration_ms;                   // of iterations completed since the beat before
  StepLosses losses;                        // of the same
  std::optional<SlowestRank> slowest;       // where the heartbeat pages tell compute times
  std::int64_t progress_age_ms = 0;         // of the rank with the oldest progress
  std::int64_t newest_progress_age_ms = 0;  // of the rank with the newest
  // Up to 8 ranks, oldest progress first; those outside of any collective among them, if few are.
  std::vector<RankAge> oldest;
  std::int64_t next_age_ms = -1;  // of the oldest one that is not listed; -1: all are
  std::uint32_t waiting = 0;      // ranks inside a collective
  Iteration checkpoint;           // last one saved, by its page or its output
  std::uint64_t saves_answered = 0;
  std::uint64_t free_memory_bytes = 0, free_shm_bytes = 0;  // smallest of all nodes
  double gpu_watts = 0;  // of all nodes; 0 = not every node measures it
  STOKER_FIELDS(Beat, attempt, phase, phase_age_ms, ranks, reporting, iteration_min, iteration_max,
                total, consumed_samples, consumed_tokens, loss, learning_rate, gradient_norm,
                tflops, iteration_ms, losses, slowest, progress_age_ms, newest_progress_age_ms,
                oldest, next_age_ms, waiting, checkpoint, saves_answered, free_memory_bytes,
                free_shm_bytes, gpu_watts)
};

struct CheckpointSaved {
  static constexpr const char* kKind = "checkpoint_saved";
  Iteration iteration;
  std::string checkpoint;  // directory name
  std::uint64_t bytes = 0;
  double seconds = 0;
  STOKER_FIELDS(CheckpointSaved, iteration, checkpoint, bytes, seconds)
};

struct SaveFailed {
  static constexpr const char* kKind = "save_failed";
  Iteration iteration;
  std::string why;  // "disk full: …"
  STOKER_FIELDS(SaveFailed, iteration, why)
};

// Two computations or copies that must be the same bits are not.
struct NumbersDiffer {
  static constexpr const char* kKind = "numbers_differ";
  Iteration iteration;      // completed
  std::string check;        // "replicas": copies of a tensor | "replay": a micro-batch made again
  std::string what;         // "blocks.0.norm1.weight[3]: its parameter on rank 1 differs from …"
  std::vector<Rank> ranks;  // that may have the wrong bits
  bool outvoted = false;    // others agree against them
  bool repaired = false;    // the training goes on with good ones; else its ranks exit with 24
  STOKER_FIELDS(NumbersDiffer, iteration, check, what, ranks, outvoted, repaired)
};

struct Acknowledged {  // a counter of control.json was acted on, or a level taken up (value = 1)
  static constexpr const char* kKind = "acknowledged";
  std::string what;  // "save" | "stacks" | "restart" | "level"
  std::uint64_t value = 0;
  std::string detail;
  STOKER_FIELDS(Acknowledged, what, value, detail)
};

struct RankPlace {
  Rank rank;
  NodeName node;
  STOKER_FIELDS(RankPlace, rank, node)
};

struct StacksWritten {
  static constexpr const char* kKind = "stacks";
  std::string directory;  // gen-000017/stacks/<time>, relative to the run directory
  std::uint32_t ranks = 0;
  std::uint32_t groups = 0;    // of ranks with equal stacks
  std::vector<RankPlace> odd;  // outside the group that holds more than half; at most 16
  STOKER_FIELDS(StacksWritten, directory, ranks, groups, odd)
};

struct HealthSource {
  std::string name;  // "NVML" | "kernel log" | "/dev/shm" | "stacks"
  bool works = false;
  std::string detail;  // what there is, or why not
  STOKER_FIELDS(HealthSource, name, works, detail)
};
struct GpuName {
  std::string pci, uuid, serial;  // "" where the driver does not tell
  STOKER_FIELDS(GpuName, pci, uuid, serial)
};
struct HealthSources {  // once a node and generation: what its agent can learn from
  static constexpr const char* kKind = "health_sources";
  NodeName node;
  std::vector<HealthSource> sources;
  std::vector<GpuName> gpus;
  STOKER_FIELDS(HealthSources, node, sources, gpus)
};

struct CheckpointsDeleted {  // old ones, as checkpoints.keep says
  static constexpr const char* kKind = "checkpoints_deleted";
  std::vector<std::string> checkpoints;  // directory names, oldest first
  STOKER_FIELDS(CheckpointsDeleted, checkpoints)
};

struct CheckpointArchived {  // copied away, as checkpoints.archive says, and read back
  static constexpr const char* kKind = "checkpoint_archived";
  Iteration iteration;
  std::string checkpoint;  // directory name
  std::string path;        // of the copy
  std::uint64_t bytes = 0;
  double seconds = 0;
  bool without_optimizer = false;
  STOKER_FIELDS(CheckpointArchived, iteration, checkpoint, path, bytes, seconds, without_optimizer)
};
struct ArchiveFailed {  // it is tried again; reported once for each reason
  static constexpr const char* kKind = "archive_failed";
  Iteration iteration;
  std::string checkpoint;     // "" = the archive does not answer
  std::string to, why;        // the archive; what is wrong
  std::uint32_t waiting = 0;  // checkpoints that are due; they stay where they are
  STOKER_FIELDS(ArchiveFailed, iteration, checkpoint, to, why, waiting)
};

struct GpuFigures {  // what one GPU of a tested node did: recipe/gpu_bench.hpp
  GpuName gpu;
  std::string model;  // "NVIDIA H200": only equal ones are compared
  std::map<std::string, double> figures;
  std::string note;  // what was not measured, and why
  STOKER_FIELDS(GpuFigures, gpu, model, figures, note)
};
// A round of the test of nodes begins (NodesBenched reports the result); no attempt starts before
// it is over.
struct BenchBegan {
  static constexpr const char* kKind = "bench_began";
  std::vector<NodeName> tested;
  bool preflight = false;
  Duration at_most{};
  STOKER_FIELDS(BenchBegan, tested, preflight, at_most)
};
// Nodes on parole were tested beside some of the others, all at once; before the first start
// (recover.preflight) all nodes.
struct NodesBenched {
  static constexpr const char* kKind = "nodes_benched";
  std::vector<NodeName> tested;                               // who is judged
  std::map<NodeName, std::map<std::string, double>> figures;  // of all that answered
  double seconds = 0;
  bool preflight = false;
  std::map<NodeName, std::vector<GpuFigures>> gpus;
  std::map<NodeName, std::string> notes;  // why a node's GPUs were not tested
  STOKER_FIELDS(NodesBenched, tested, figures, seconds, preflight, gpus, notes)
};

struct KernelLine {
  static constexpr const char* kKind = "kernel_line";
  NodeName node;
  std::string event_class;  // "xid" | "oom_kill" | "hung_task"
  std::string text;         // at most 512 bytes
  std::optional<int> xid;
  std::string gpu_pci;
  std::string gpu_uuid, gpu_serial;  // by NVML; "" = not known
  // Of the Xid catalogue; of a killed or hung task: if_repeated = ours. "" = its agent has none.
  OptionalName<NodeSuspect> node_suspect;
  OptionalName<NodeAction> node_action;
  STOKER_FIELDS(KernelLine, node, event_class, text, xid, gpu_pci, gpu_uuid, gpu_serial,
                node_suspect, node_action)
};

// Ports, processes or threads of a node are used up, by other users perhaps: what is to be started
// is tried again until it can. No failure of the run, and no fault of the node.
struct MachineShort {
  static constexpr const char* kKind = "machine_short";
  NodeName node;
  std::string what;    // "cannot fork: Resource temporarily unavailable"
  Duration at_most{};  // until it is reported again
  STOKER_FIELDS(MachineShort, node, what, at_most)
};

struct ControlRefused {  // of another run or generation, or of a daemon that has a successor
  static constexpr const char* kKind = "control_refused";
  NodeName node;
  std::string text;    // "control of epoch 3 refused, 4 is known"
  bool stale = false;  // the daemon that wrote it has a successor
  STOKER_FIELDS(ControlRefused, node, text, stale)
};

struct Notice {  // worth a line, no failure: "output of rank 3 is block-buffered"
  static constexpr const char* kKind = "notice";
  NodeName node;
  std::string text;
  STOKER_FIELDS(Notice, node, text)
};

struct Goodbye {  // the agent leaves in order; of the lead: the generation is over and every
                  // process of it is gone
  static constexpr const char* kKind = "goodbye";
  NodeName node;
  bool lead = false;
  int exit_code = 0;  // of the agent: what the job will show
  std::string why;
  std::optional<EndMark> end{};  // of the lead: the run is over; the mark is on disk
  STOKER_FIELDS(Goodbye, node, lead, exit_code, why, end)
};

using AgentBody =
    std::variant<GenerationStarted, AgentJoined, AgentLost, DamagedCheckpoint, AttemptStarted,
                 RankExited, AttemptEnded, PhaseEdge, Beat, CheckpointSaved, SaveFailed,
                 ResumeAudit, NumbersDiffer, Acknowledged, StacksWritten, CheckpointsDeleted,
                 CheckpointArchived, ArchiveFailed, BenchBegan, NodesBenched, HealthSources,
                 KernelLine, MachineShort, ControlRefused, Notice, Goodbye>;

struct AgentEvent {
  int version = 1;
  Instant at;     // monotonic clock of the writing node
  WallTime wall;  // its wall clock: for people only
  AgentBody body;
  STOKER_FIELDS(AgentEvent, version, at, wall, body)
};

// It reports the end of an attempt before `begun`, or of a part of it.
bool is_overtaken(const AgentBody& body, Attempt begun);

// The line with its checksum and newline.
std::string format_event_line(const AgentEvent& event);
// `line` without its newline. Errors: torn, checksum, unknown kind (of a newer version).
Result<AgentEvent> parse_event_line(std::string_view line, const std::string& object);

}  // namespace stoker::wire

STOKER_JSON_ONCE(stoker::wire::AgentEvent)
