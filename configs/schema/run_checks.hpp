// What only the machine can tell about a RUN.yaml: does the command exist, can the run directory be
// made, is there such a group, are the files it names there, and does the TRAIN.yaml of its command
// hold, up to a batch ramp that fits the nodes. Reads, never writes. All errors are added to the
// file's own.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "configs/schema/run_schema.hpp"
#include "configs/schema/train_schema.hpp"

namespace stoker::configs {

struct RunWorld {
  std::map<std::string, std::string> environment;  // PATH is checked
  // "" when the regular expression is good, else what is wrong; empty function: not judged.
  std::function<std::string(const std::string&)> regex_error;
  std::string agent;  // used when train.agent is not given; "": the one beside this program
};

struct CheckedRun {
  RunConfigFile file;                    // `file.errors` empty: `file.policy` may be submitted
  std::optional<TrainConfigFile> train;  // of `stoker-train --config TRAIN.yaml`
  std::string train_path;                // "" without one
  std::string text;                      // what was checked, of load_run_config()
};

// The schema and, when that holds, the machine. In the policy, the program and TRAIN.yaml of the
// command become absolute, and nodes_allowed the legal counts where nothing was given.
CheckedRun check_run_config(std::string_view text, const RunSchemaContext& context,
                            const RunWorld& world);

// The same from a file; an Error only when it cannot be read. `context.file` and
// `context.config_path` are set from `path`.
Result<CheckedRun> load_run_config(const std::string& path, RunSchemaContext context,
                                   const RunWorld& world);

// Where `program` is, as a shell would find it in `path_list` (colons); empty when nowhere.
std::optional<std::string> find_program(const std::string& program, const std::string& path_list);

// Empty when `directory` exists and can be written, or could be made; else why not.
std::string why_not_writable(const std::string& directory);

}  // namespace stoker::configs
