// status.json: what the daemon publishes of a run (and what `stoker status --json` prints), so that
// reading commands answer at once, also while the daemon is away. Keys are a contract (cli.md). The
// site's list is <state>/published/site.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"

namespace stoker::wire {

struct StatusCheckpoint {
  std::uint64_t iteration = 0;
  double age_s = 0;
  STOKER_FIELDS(StatusCheckpoint, iteration, age_s)
};

struct StatusAlert {
  std::string id, severity, kind, summary, reason, command, since;
  bool acknowledged = false;
  STOKER_FIELDS(StatusAlert, id, severity, kind, summary, reason, command, since, acknowledged)
};

struct StatusBudget {
  std::uint32_t restarts_left = 0, restarts_total = 0;
  std::uint32_t without_progress = 0, without_progress_limit = 0;
  STOKER_FIELDS(StatusBudget, restarts_left, restarts_total, without_progress,
                without_progress_limit)
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
  std::uint32_t restarts = 0;
  StatusBudget budget;
  std::optional<double> eta_s;
  std::vector<StatusAlert> alerts;
  STOKER_FIELDS(StatusDocument, version, run, directory, state, conditions, since, reason, stale,
                published, job, job_state, generation, attempt, nodes, iteration, total,
                consumed_samples, phase, loss, learning_rate, tflops, step_s, step_norm_s,
                progress_age_s, deadline_s, loss_history, checkpoint, restarts, budget, eta_s,
                alerts)
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

// One line of `stoker nodes --json`, and of published/nodes.jsonl.
struct PublishedNode {
  std::string node, state;  // ok suspect excluded down
  std::optional<std::string> excluded_until;
  std::vector<std::string> evidence;
  STOKER_FIELDS(PublishedNode, node, state, excluded_until, evidence)
};

}  // namespace stoker::wire

STOKER_JSON_ONCE(stoker::wire::StatusDocument)
