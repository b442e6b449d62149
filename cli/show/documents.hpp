// What commands print with --json, beside what the daemon publishes (wire/). Keys are a contract:
// they are added, and none is renamed or removed. docs/schema is made from these structs
// (tests/lint/schemas.py).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/doctor/site_checks.hpp"
#include "cli/init/draft.hpp"
#include "common/json.hpp"
#include "wire/bench_report.hpp"
#include "wire/held.hpp"

namespace stoker::cli {

struct ErrorDocument {  // of any command that could not answer
  std::string error;    // what it said on stderr
  int exit = 0;
  STOKER_FIELDS(ErrorDocument, error, exit)
};

struct ActingDocument {  // of a command that acts: save, stop, ack, …
  bool ok = false;
  std::string message;
  Json data;        // the daemon's, by command
  std::string via;  // "daemon" or "switch file"
  bool dry_run = false;
  STOKER_FIELDS(ActingDocument, ok, message, data, via, dry_run)
};

struct AlertPlace {  // with the keys of wire::StatusAlert: an open alert
  std::string run;   // "" = of the site
  bool stale = false;
  std::vector<wire::HeldAlert> held;
  STOKER_FIELDS(AlertPlace, run, stale, held)
};

struct PulseDocument {
  std::string run, state;
  bool stale = false, alert = false;
  std::string pulse;  // the line
  STOKER_FIELDS(PulseDocument, run, state, stale, alert, pulse)
};

struct DoctorFinding {
  std::string check;
  Health level = Health::Good;
  std::string found, fix;  // fix: "" = nothing to do
  STOKER_FIELDS(DoctorFinding, check, level, found, fix)
};

struct DoctorDocument {
  bool ok = true;
  std::vector<DoctorFinding> findings;
  STOKER_FIELDS(DoctorDocument, ok, findings)
};

struct PoorNode {
  NodeName node;
  std::string gpu;     // its place on the bus; "" = it is the node's
  std::string figure;  // "" = it did not finish, though the others did
  double value = 0;
  double usual = 0, limit = 0;  // of the others; both 0: the figure is bad by itself
  std::string text;
  STOKER_FIELDS(PoorNode, node, gpu, figure, value, usual, limit, text)
};

struct BenchDocument {
  bool ok = true;
  std::vector<wire::BenchReport> nodes;
  std::vector<PoorNode> poor;
  std::vector<NodeName> silent;  // that were asked and did not answer
  STOKER_FIELDS(BenchDocument, ok, nodes, poor, silent)
};

struct CheckError {
  std::string file;
  int line = 0, column = 0;  // from 1; 0 = of the file as a whole
  std::string message;
  STOKER_FIELDS(CheckError, file, line, column, message)
};

struct CheckValue {   // of the configuration in force
  std::string key;    // dotted: "scheduler.nodes"; an item of a list is "[0]"
  std::string value;  // as YAML
  int line = 0;       // of RUN.yaml; 0 = a default
  STOKER_FIELDS(CheckValue, key, value, line)
};

struct CheckRefusal {  // exit 2
  bool ok = false;
  std::vector<CheckError> errors;
  STOKER_FIELDS(CheckRefusal, ok, errors)
};

struct CheckDocument {
  bool ok = true;
  std::vector<CheckError> errors;  // empty
  std::string run, directory;
  Json policy;  // the configuration as the daemon takes it
  std::vector<CheckValue> values;
  // In words, by what they are about ("size" -> "2 nodes of 8 ranks").
  std::map<std::string, std::string> known, assumed, not_known;
  std::map<std::string, std::string> without_agent;  // what a batch script can have
  STOKER_FIELDS(CheckDocument, ok, errors, run, directory, policy, values, known, assumed,
                not_known, without_agent)
};

struct InitDocument {
  std::optional<std::string> file;     // that was written; null: shown alone
  std::string source;                  // "batch_script", "shell_script", "python", "command"
  std::string path;                    // of the script, absolute; "" = a command
  std::vector<std::string> launchers;  // the outermost first
  std::vector<init::Entry> entries;
  std::vector<std::string> notes;
  std::map<std::string, std::string> not_known;
  STOKER_FIELDS(InitDocument, file, source, path, launchers, entries, notes, not_known)
};

}  // namespace stoker::cli
