// The end of a run's newest log, for the page. Blocks on the run's file system.
#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"

namespace stoker::daemon {

struct LogTail {
  std::string path;
  std::vector<std::string> lines;  // oldest first
};

// main.log of the newest generation in `directory`; without one, the newest of the files that
// `patterns` stand for (logs of trainings without agents). At most `most` lines of the last 256
// KiB.
Result<LogTail> read_log_tail(const std::string& directory,
                              const std::vector<std::string>& patterns, std::size_t most);

}  // namespace stoker::daemon
