// The newest of a training's logs, and whether its iteration lines can be read: for `stoker init`
// and `stoker check`. Its last lines only, so that a log of gigabytes costs no more than others.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/parse/metrics.hpp"

namespace stoker::cli {

struct LogLook {
  std::string path;
  std::string error;                               // why it could not be read; "" = it was
  std::string form;                                // of the iteration lines; "" = no such line
  std::optional<diagnose::IterationMetrics> last;  // the last of them
};

// `patterns`: paths with * allowed. `progress`: watch.progress. Empty: there is no such file here.
std::optional<LogLook> look_at_newest_log(const std::vector<std::string>& patterns,
                                          const std::map<std::string, std::string>& progress);

}  // namespace stoker::cli
