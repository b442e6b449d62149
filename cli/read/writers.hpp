// Who else decides what is executed as the person who runs a run: who writes its RUN.yaml or a
// script that it names, or may put another file in its place.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/read/executed.hpp"
#include "core/policy.hpp"

namespace stoker::cli {

struct OtherWriter {
  std::string found;  // "/team/job.sh: alice can write it, and so decides …"
  std::string fix;
};
// Of a file also who may replace it, or one of the folders that it lies in; of a folder who may put
// files into it; of what is not there who may make it.
std::optional<OtherWriter> other_writer_of(const std::string& path);

std::optional<OtherWriter> other_writer_of(const Executed& file);

// One line on standard error for each of these files that others can write or replace.
void warn_of_writers(const Console& console, const std::vector<Executed>& files);

// checkpoints.directory, where it is another user's or root's and others may write it too: they can
// take the names of checkpoints, which we cannot move aside there.
std::optional<OtherWriter> taker_of_checkpoint_names(const core::RunPolicy& policy);
// The folder of train.finished.file, where others can put files: another file of ours, too.
std::optional<OtherWriter> other_maker_of_the_end(const core::RunPolicy& policy);
// Folders of patterns of watch.logs in which others can make files.
std::vector<OtherWriter> other_makers_of_logs(const core::RunPolicy& policy);
// All of a run's: files_executed(), the checkpoints' names, the file that ends it, and its logs.
void warn_of_writers(const Console& console, const std::string& run_file,
                     const core::RunPolicy& policy);

}  // namespace stoker::cli
