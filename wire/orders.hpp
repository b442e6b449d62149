// orders/000042.json: what the next start of a run must do. The daemon writes it once, aside and
// renamed, and never changes it; the job's lead agent freezes it into gen-*/start.json. Also here:
// claims, the fence in front of a start.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "wire/lineage.hpp"

namespace stoker::wire {

inline constexpr int kOrdersVersion = 1;

// Where to resume. Newest: the newest good checkpoint of the newest generation's ancestry. Exact: a
// rollback to that step. Scratch: from the beginning.
enum class ResumeMode { Newest, Exact, Scratch };

}  // namespace stoker::wire

template <>
struct stoker::EnumNames<stoker::wire::ResumeMode> {
  static constexpr std::array names{"newest", "exact", "scratch"};
};

namespace stoker::wire {

struct Resume {
  ResumeMode mode = ResumeMode::Newest;
  Iteration iteration;    // Exact only
  Generation generation;  // Exact only: whose checkpoint
  STOKER_FIELDS(Resume, mode, iteration, generation)
};

// Samples that a rollback left out: checkpoints of generations up to `through` do not have that
// behind them yet.
struct Skip {
  Generation through;
  std::uint64_t samples = 0;
  STOKER_FIELDS(Skip, through, samples)
};
// More than any data set has; sums of it and of what was consumed fit 64 bits by far.
constexpr std::uint64_t kMostSkipped = std::uint64_t{1} << 40;
// What a start leaves out that goes on from a checkpoint of this generation; at most kMostSkipped.
std::uint64_t samples_to_skip(const std::vector<Skip>& skips, Generation saved_by);

// When a training is finished; empty: its ranks end with 0 at the total that they report.
struct FinishedWhen {
  std::optional<std::uint64_t> iteration;
  std::string file;  // relative to the run directory
  bool exit_zero = false;
  STOKER_FIELDS(FinishedWhen, iteration, file, exit_zero)
};
// Only the exit of its ranks shows that such a training is finished.
bool ends_by_exit(const FinishedWhen& when, std::uint64_t total);
// All ranks ended with 0 at iteration `at` of `total` (0 = not known): is that the end? Where a
// file shows it, the file is checked first.
bool reached_end(const FinishedWhen& when, std::uint64_t at, std::uint64_t total);

// Of a follower (`after:` of RUN.yaml): checkpoints with a newer multiple of `every` behind them
// than `behind` has were not heard of by the daemon yet, and stay until then.
struct FollowRule {
  std::uint64_t every = 0, behind = 0;
  STOKER_FIELDS(FollowRule, every, behind)
};
constexpr bool keeps(const FollowRule& rule, std::uint64_t iteration) {
  return rule.every > 0 && iteration > rule.behind &&
         iteration / rule.every > rule.behind / rule.every;
}

struct Orders {
  int version = kOrdersVersion;
  RunName run;
  OrderNumber number;
  Epoch epoch;  // of the daemon that wrote it; agents refuse orders and control of an older epoch
                // than they know
  Resume resume;
  std::vector<std::string> command;                // argv of a rank
  std::map<std::string, std::string> environment;  // added for the ranks
  std::string setup;        // script sourced before the agent starts; "" = none
  std::uint32_t nodes = 1;  // active nodes, without spares
  std::uint32_t ranks_per_node = 1;
  std::uint32_t spares = 0;
  bool in_allocation = true;         // restart ranks inside the allocation
  std::uint32_t restart_budget = 3;  // restarts the lead may decide alone, while the daemon is away
  Duration orphan_grace = 10min;     // a dead rank this long without an answer of the daemon
  Duration stop_grace = 20s;         // from TERM to KILL when ranks are stopped
  Duration hang_floor = 60s;         // hang.floor: how often the lead beats follows from it
  std::string save_signal;           // of a foreign training: "USR1"; "" = heartbeat page or none
  std::string kill_switch;           // of a foreign training
  FinishedWhen finished;             // empty of an older daemon
  Duration exit_before_limit = 10min;                // save and leave this long before the wall
  std::string checkpoint_directory = "checkpoints";  // relative to the run directory
  std::string checkpoint_format = "stoker";
  bool verify_checkpoints = true;
  std::uint32_t keep_last = 0;          // newest good checkpoints kept; 0 = delete nothing
  std::uint64_t keep_every = 0;         // multiples of it are never deleted; 0 = none
  std::vector<std::uint64_t> keep_pin;  // iterations never deleted
  std::vector<FollowRule> keep_follow;  // not heard of by the daemon yet
  std::string archive_to;               // absolute; checkpoints are copied there; "" = none are
  std::uint64_t archive_every = 0;      // multiples of it
  bool archive_without_optimizer = false;
  double lr_scale = 1;
  std::uint64_t skip_samples = 0;  // of an Exact start
  std::vector<Skip> skips;  // of all rollbacks of the line, for a start that falls back behind one
  std::vector<NodeName> exclude;  // nodes of the allocation that must carry no rank
  std::vector<NodeName> bench;    // on parole: tested beside others before they carry ranks
  bool preflight = false;         // all nodes are tested before the first attempt
  std::map<std::string, std::string>
      progress;  // regular expressions {iteration, loss} of the user; empty = automatic
  std::map<std::string, std::string>
      digests;  // path -> XXH3 of TRAIN.yaml and setup, frozen by the agent
  STOKER_FIELDS(Orders, version, run, number, epoch, resume, command, environment, setup, nodes,
                ranks_per_node, spares, in_allocation, restart_budget, orphan_grace, stop_grace,
                hang_floor, save_signal, kill_switch, finished, exit_before_limit,
                checkpoint_directory, checkpoint_format, verify_checkpoints, keep_last, keep_every,
                keep_pin, keep_follow, archive_to, archive_every, archive_without_optimizer,
                lr_scale, skip_samples, skips, exclude, bench, preflight, progress, digests)
};

// How often agents tell the progress of their ranks: twenty times in the shortest silence that may
// be called a hang, at least each second.
constexpr Duration beat_every(Duration hang_floor) {
  return std::clamp<Duration>(hang_floor / 20, 100ms, 1s);
}

// claims/<token>.<task>.<restart>: link(2)ed by a job's first act; a second claimant leaves before
// any rank starts.
struct Claim {
  int version = 1;
  RunName run;
  Token token;
  JobId job;
  std::uint32_t restart = 0;  // SLURM_RESTART_COUNT
  NodeName node;
  std::string host, boot_id;
  std::int64_t pid = 0;
  WallTime at;
  STOKER_FIELDS(Claim, version, run, token, job, restart, node, host, boot_id, pid, at)
};
std::string claim_name(const Token& token, std::uint32_t task, std::uint32_t restart);

// gen-000017/start.json: minted once by link(2); the frozen order and the ancestry that readers
// accept.
struct Start {
  int version = 1;
  RunName run;
  Generation generation;
  Generation parent;    // 0 = none
  Iteration iteration;  // resume point when the generation was minted; 0 = from scratch
  Lineage lineage;
  Token token;
  JobId job;
  std::uint32_t restart = 0;
  std::vector<NodeName> nodes;  // of the allocation, in rank order, spares last
  NodeName lead;
  Orders orders;
  WallTime at;
  STOKER_FIELDS(Start, version, run, generation, parent, iteration, lineage, token, job, restart,
                nodes, lead, orders, at)
};

}  // namespace stoker::wire

STOKER_JSON_ONCE(stoker::wire::Orders)
STOKER_JSON_ONCE(stoker::wire::Start)
