// SiteState: all that the decider remembers, and nothing else does. One total order of events
// changes it, through step() alone. It is written whole as canonical JSON with every transaction;
// ordered containers only, so the same history is the same bytes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/action.hpp"
#include "core/event.hpp"
#include "core/nodes/ledger.hpp"
#include "core/run_state.hpp"

namespace stoker::core {

inline constexpr int kStateSchema = 1;

struct AlertState {
  std::string id;
  RunName run;
  std::string subject;  // what the incident is about besides the kind: a node, a path; may be ""
  Severity severity = Severity::Warning;
  std::string kind, summary, reason, command;
  WallTime since;
  Sequence seq;
  bool acknowledged = false;
  std::string acknowledged_by;
  bool quiet = false;  // shown, not sent: an alert of the same event reports it
  STOKER_FIELDS(AlertState, id, run, subject, severity, kind, summary, reason, command, since, seq,
                acknowledged, acknowledged_by, quiet)
};

struct Silence {
  std::string id;                            // "s12"
  std::map<std::string, std::string> match;  // run, kind, severity, node -> value
  Instant until;
  std::string by, reason;
  WallTime since, until_wall;
  STOKER_FIELDS(Silence, id, match, until, by, reason, since, until_wall)
};

// An effect that was asked for and has no result yet, or that failed and is tried again.
struct OpenEffect {
  RunName run;
  Action action;
  std::uint32_t failures = 0;
  STOKER_FIELDS(OpenEffect, run, action, failures)
};
struct Retry {
  Instant at;
  OpenEffect effect;
  STOKER_FIELDS(Retry, at, effect)
};

// The wall clock of this host was set.
struct ClockStep {
  Instant at;
  Duration by{};  // forward
  STOKER_FIELDS(ClockStep, at, by)
};

struct SiteState {
  int schema = kStateSchema;
  std::string build;
  Epoch epoch;
  Sequence seq;  // of the last event
  Instant now;
  WallTime wall;
  std::optional<ClockStep> clock_step;  // the last one
  std::map<RunName, RunState> runs;
  NodeLedger ledger;
  std::map<std::string, AlertState> alerts;  // open ones, by id
  std::vector<Silence> silences;
  std::map<EffectKey, OpenEffect> open;
  std::vector<Retry> retries;
  std::optional<Instant> blind_since;  // the scheduler gives no good answers
  std::string blind_why;
  std::map<std::string, double> disks_low;  // path -> free share
  std::optional<CalendarSeen> calendar;     // of the cluster; empty: it was never answered
  STOKER_FIELDS(SiteState, schema, build, epoch, seq, now, wall, clock_step, runs, ledger, alerts,
                silences, open, retries, blind_since, blind_why, disks_low, calendar)
};

}  // namespace stoker::core
