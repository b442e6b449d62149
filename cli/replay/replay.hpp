// Replay: old logs through the detectors, the decider and the live log scan as they are today, with
// the logs' own clocks. The logs are read twice: once for what they show happened, once as if they
// were being written.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/read/log_inputs.hpp"
#include "cli/replay/replay_run.hpp"
#include "diagnose/match/log_scan.hpp"

namespace stoker::cli {

struct ReplayOptions {
  core::RunPolicy policy;
  std::int64_t zone_ms = 0;       // of times without a zone: how far they are ahead of UTC
  std::optional<WallTime> until;  // the job stood until then, where the logs end before
};

struct ReplayResult {
  std::size_t files = 0;
  std::uint64_t lines = 0;
  std::uint64_t iterations = 0;  // iteration lines that were progress
  WallTime from, to;
  bool stamped = false;  // else times count from the beginning of the log
  std::vector<Detection> detections;
  std::vector<Said> said;
  std::vector<std::string> notes;
  std::vector<std::string> errors;  // files that could not be read
  [[nodiscard]] double saved_hours() const;
  [[nodiscard]] std::size_t false_alarms() const;
};

// Errors: nothing could be read, or an expression of watch.progress is wrong.
Result<ReplayResult> replay(const std::vector<LogInput>& inputs, const ReplayOptions& options,
                            std::shared_ptr<const diagnose::Detector> detector);

Json to_json_object(const ReplayResult& result);

}  // namespace stoker::cli
