// Who else decides what is executed as the person who runs a run: who writes its RUN.yaml or a
// script that it names, or may put another file in its place.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "core/policy.hpp"

namespace stoker::cli {

struct OtherWriter {
  std::string found;  // "/team/job.sh: alice can write it, and so decides …"
  std::string fix;
};
std::optional<OtherWriter> other_writer_of(const std::string& path);

// The scripts that are executed as they are at that time: train.batch_script at each submission,
// train.setup and those of train.command at each start. Programs that are no text are not among
// them, nor what is not here.
std::vector<std::string> scripts_of(const core::RunPolicy& policy);

// One line on standard error for each of these files that has one.
void warn_of_writers(const Console& console, const std::vector<std::string>& paths);
// Of RUN.yaml and of the scripts in it.
void warn_of_writers(const Console& console, const std::string& run_file,
                     const core::RunPolicy& policy);

}  // namespace stoker::cli
