// What a run executes as the person who runs it: its RUN.yaml, the programs and scripts that this
// names, and what those scripts name in turn, as far as reading shows. Nothing is executed.
#pragma once

#include <string>
#include <vector>

#include "core/policy.hpp"

namespace stoker::cli {

struct Executed {
  std::string path;
  std::string why;  // "LD_PRELOAD in train.environment"; "" = RUN.yaml or a script names it itself
  bool operator==(const Executed&) const = default;
};

// RUN.yaml itself, read again each time; train.batch_script at each submission; train.agent,
// train.setup and train.command at each start; the commands of `after` at each checkpoint, those of
// exec sinks at each alert; stoker's own programs, as they are installed. Of each command:
// programs, scripts and folders of code that it names, behind launchers (env --chdir, torchrun,
// bash -c) too, and what the shell scripts among them name; and what programs load that variables
// name (PATH, LD_PRELOAD, PYTHONPATH …). What does not exist on this host is left out, and so are
// programs that a bare name finds in PATH.
std::vector<Executed> files_executed(const std::string& run_file, const core::RunPolicy& policy);

}  // namespace stoker::cli
