// status.json: what the daemon publishes of a run (and what `stoker status --json` prints), so that
// reading commands answer at once, also while the daemon is away. Keys are a contract (cli.md). The
// site's list is <state>/published/site.json.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/optional_name.hpp"
#include "common/remedy.hpp"

namespace stoker::wire {

struct StatusCheckpoint {
  std::uint64_t iteration = 0;
  double age_s = 0;
  STOKER_FIELDS(StatusCheckpoint, iteration, age_s)
};

struct StatusArchive {  // newest copy of a checkpoint that was read back (checkpoints.archive)
  std::uint64_t iteration = 0;
  double age_s = 0;
  std::string path;
  STOKER_FIELDS(StatusArchive, iteration, age_s, path)
};

struct StatusFollowed {  // a checkpoint on which a follower's job is on its way
  std::uint64_t iteration = 0;
  std::string job;    // "" = not submitted yet
  std::string state;  // waiting running ended
  std::string since;
  std::uint32_t attempt = 1;
  STOKER_FIELDS(StatusFollowed, iteration, job, state, since, attempt)
};
struct StatusFollowResult {
  std::uint64_t iteration = 0;
  bool good = false;
  std::string text, at;  // last line of the command, or what was wrong
  double s = 0;
  STOKER_FIELDS(StatusFollowResult, iteration, good, text, at, s)
};
struct StatusFollower {  // a command of `after:`
  std::string name;
  std::uint64_t every = 0;
  std::vector<StatusFollowed> jobs;
  std::vector<std::uint64_t> waiting;  // iterations of checkpoints
  std::uint64_t good = 0, given_up = 0, skipped = 0;
  std::uint64_t behind = 0;  // iterations from the oldest of jobs and waiting to the newest
                             // checkpoint; 0: nothing is left to do
  std::optional<StatusFollowResult> last;
  STOKER_FIELDS(StatusFollower, name, every, jobs, waiting, good, given_up, skipped, behind, last)
};

struct StatusAlert {
  std::string id, severity, kind, summary, reason, command, since;
  bool acknowledged = false;
  STOKER_FIELDS(StatusAlert, id, severity, kind, summary, reason, command, since, acknowledged)
};

struct StatusSilence {  // alerts that match are shown and not sent until then
  std::string id, match, by, reason, since, until;
  STOKER_FIELDS(StatusSilence, id, match, by, reason, since, until)
};

struct StatusBisectRound {
  std::uint64_t iteration = 0;
  std::vector<std::string> out;  // suspects that were left out
  bool slow = false;
  std::uint32_t left = 0;  // suspects that remained
  STOKER_FIELDS(StatusBisectRound, iteration, out, slow, left)
};
struct StatusSlow {  // a step change that lasts, or a search for its node that is not over
  bool now = true;
  std::uint64_t iteration = 0;  // since
  double usual_s = 0, step_s = 0;
  std::vector<std::string> suspects, next_out;
  std::uint32_t of = 0, spare = 0, starts_left = 0;
  std::optional<std::string> node;  // of the slowest rank, where compute times tell
  std::optional<double> restart_cost_s, restart_gain_s, restart_chance;
  std::vector<StatusBisectRound> rounds;
  STOKER_FIELDS(StatusSlow, now, iteration, usual_s, step_s, suspects, next_out, of, spare,
                starts_left, node, restart_cost_s, restart_gain_s, restart_chance, rounds)
};

struct StatusCost {
  std::string cause;  // kind of incident, or queue start repeated checkpoint slow
  std::uint32_t times = 0;
  double s = 0, node_hours = 0, gpu_hours = 0;
  STOKER_FIELDS(StatusCost, cause, times, s, node_hours, gpu_hours)
};
struct StatusIncident {
  std::string kind, time;  // RFC 3339
  std::uint64_t iteration = 0, repeated = 0;
  double s = 0, node_hours = 0, gpu_hours = 0;
  STOKER_FIELDS(StatusIncident, kind, time, iteration, repeated, s, node_hours, gpu_hours)
};
struct StatusEnergy {
  double kwh = 0;
  std::optional<double> co2_kg;  // without goodput.co2_g_per_kwh: empty
  double measured_share = 0;     // of the node hours
  std::string how;               // "measured", or the model in words
  STOKER_FIELDS(StatusEnergy, kwh, co2_kg, measured_share, how)
};
struct StatusGoodput {  // where the time went; `held` is not part of the whole
  double whole_s = 0, ettr = 0;
  std::map<std::string, double> spent_s;  // train repeated slow checkpoint start queue down held
  double lost_node_hours = 0,
         lost_gpu_hours = 0;              // GPU hours: 0 = scheduler.gpus_per_node is not given
  std::vector<StatusCost> causes;         // what the lost hours went into, dearest first
  std::vector<StatusIncident> incidents;  // the last ones, oldest first
  std::optional<double> mfu, mfu_whole;   // of the usual iteration; of all time: times ettr
  std::optional<StatusEnergy> energy;
  STOKER_FIELDS(StatusGoodput, whole_s, ettr, spent_s, lost_node_hours, lost_gpu_hours, causes,
                incidents, mfu, mfu_whole, energy)
};
struct StatusSpares {  // of the nodes that the site is known to have
  std::uint32_t known = 0, needed = 0, out = 0, free = 0;
  double lost_per_day = 0;
  std::optional<double> out_in_s;  // until fewer than `needed` are left; empty: not within 90 days
  std::uint32_t accused = 0, falsely = 0;  // exclusions by evidence; those that proved false
  STOKER_FIELDS(StatusSpares, known, needed, out, free, lost_per_day, out_in_s, accused, falsely)
};
struct StatusLeaving {  // nodes that a reservation takes away from the run
  std::string at;       // RFC 3339
  std::string nodes;    // "n[01-24]"
  std::string why;
  STOKER_FIELDS(StatusLeaving, at, nodes, why)
};
struct StatusSaves {  // Daly, by this run's own failures and save cost
  double usual_s = 0, best_s = 0, cost_s = 0, mtbf_s = 0;
  std::uint32_t failures = 0;
  STOKER_FIELDS(StatusSaves, usual_s, best_s, cost_s, mtbf_s, failures)
};

struct StatusForecast {  // of eta_s: its range, and what is in it
  double low_s = 0, high_s = 0;
  double iterations_s = 0, saves_s = 0, waits_s = 0, failures_s = 0;  // waits: queue and starts
  std::uint64_t tasks = 0;                                            // after this one
  STOKER_FIELDS(StatusForecast, low_s, high_s, iterations_s, saves_s, waits_s, failures_s, tasks)
};

struct StatusBudget {
  std::uint32_t restarts_left = 0, restarts_total = 0;
  std::uint32_t without_progress = 0, without_progress_limit = 0;
  STOKER_FIELDS(StatusBudget, restarts_left, restarts_total, without_progress,
                without_progress_limit)
};

struct StatusSpend {  // GPU hours of the allocation; empty: GPUs a node are not known
  double gpu_hours = 0;
  std::optional<double> budget;          // budget.gpu_hours
  std::optional<double> left_gpu_hours;  // that the forecast expects until the end
  std::optional<bool> suffices;          // spent and expected are within the budget
  STOKER_FIELDS(StatusSpend, gpu_hours, budget, left_gpu_hours, suffices)
};

struct StatusDocument {
  int version = 1;
  std::string run;
  std::string directory;  // run directory
  std::string
      state;  // idle queued starting training suspect stopping recovering held finished stopped
  std::vector<std::string> conditions;
  std::string since, reason;  // since: RFC 3339
  bool stale = false;         // set by the reader
  std::string published;      // RFC 3339, when the daemon wrote this
  std::string job;            // "123_4", "" = none
  std::string job_state;
  std::uint32_t generation = 0, attempt = 0;
  std::vector<std::string> nodes;
  std::uint64_t iteration = 0, total = 0, consumed_samples = 0;
  std::string phase;
  std::optional<double> loss;
  double learning_rate = 0, tflops = 0;
  double step_s = 0, step_norm_s = 0;  // last and usual (median) seconds of an iteration
  double progress_age_s = 0,
         deadline_s = 0;  // hang detector: age of the last progress, its limit in this phase
  std::vector<double>
      loss_history;  // up to 60 points, oldest first, evenly over the run's recent past
  std::optional<StatusCheckpoint> checkpoint;
  std::optional<StatusArchive> archive;
  std::uint32_t restarts = 0;
  StatusBudget budget;
  std::optional<StatusSpend> spend;
  std::optional<double> eta_s;
  std::optional<StatusForecast> forecast;
  std::optional<StatusSlow> slow;
  std::optional<StatusGoodput> goodput;
  std::optional<StatusSaves> saves;
  std::optional<StatusSpares> spares;
  std::vector<StatusLeaving> leaving;  // the next first
  std::vector<StatusFollower> followers;
  std::vector<StatusAlert> alerts;
  STOKER_FIELDS(StatusDocument, version, run, directory, state, conditions, since, reason, stale,
                published, job, job_state, generation, attempt, nodes, iteration, total,
                consumed_samples, phase, loss, learning_rate, tflops, step_s, step_norm_s,
                progress_age_s, deadline_s, loss_history, checkpoint, archive, restarts, budget,
                spend, eta_s, forecast, slow, goodput, saves, spares, leaving, followers, alerts)
};

// One line of events.jsonl, and of `stoker events --json`.
struct PublishedEvent {
  std::uint64_t seq = 0;
  std::string time;  // RFC 3339
  std::string run;
  std::string kind;      // of the event
  std::string decision;  // "training -> recovering", "" = the state stayed
  std::string reason;
  std::vector<std::string> actions;  // kinds with their key, one each
  Json event;                        // its body
  STOKER_FIELDS(PublishedEvent, seq, time, run, kind, decision, reason, actions, event)
};

struct PublishedGpu {
  std::string uuid, serial, pci;
  double score = 0;
  STOKER_FIELDS(PublishedGpu, uuid, serial, pci, score)
};

// One line of `stoker nodes --json`, and of published/nodes.jsonl.
struct PublishedNode {
  std::string node, state;  // ok suspect excluded down
  std::optional<std::string> excluded_until;
  std::vector<std::string> evidence;
  double score = 0;     // suspicion score; 2 excludes
  bool parole = false;  // was excluded for evidence, and is not trusted again yet
  std::uint32_t accused = 0, falsely = 0;
  std::vector<PublishedGpu> gpus;   // accused ones
  OptionalName<NodeAction> advice;  // what the newest evidence asks for; "" = nothing
  STOKER_FIELDS(PublishedNode, node, state, excluded_until, evidence, score, parole, accused,
                falsely, gpus, advice)
};

}  // namespace stoker::wire

STOKER_JSON_ONCE(stoker::wire::StatusDocument)
