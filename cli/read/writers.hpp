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

// RUN.yaml and what it has executed, read again each time: train.batch_script at each submission,
// train.agent, train.setup and the scripts in train.command at each start, those in the commands of
// `after` at each checkpoint. Other programs and files that do not exist on this host are left out.
std::vector<std::string> files_executed(const std::string& run_file, const core::RunPolicy& policy);

// One line on standard error for each of these files that others can write or replace.
void warn_of_writers(const Console& console, const std::vector<std::string>& paths);

}  // namespace stoker::cli
