// SiteView: what the web page, /metrics and /api show: a copy of what was last published, and the
// daemon's own health. The engine's thread makes it, the loop's thread serves it.
#pragma once

#include <string>
#include <vector>

#include "common/time.hpp"
#include "wire/status.hpp"

namespace stoker::daemon {

struct DaemonHealth {
  std::string build;
  std::uint32_t epoch = 0;
  double uptime_s = 0;
  std::uint64_t journal_rows = 0;
  std::uint64_t effects_waiting = 0;
  std::string journal_trouble;    // "" = it can be written
  std::string scheduler_trouble;  // "" = the last answers were good
  STOKER_FIELDS(DaemonHealth, build, epoch, uptime_s, journal_rows, effects_waiting,
                journal_trouble, scheduler_trouble)
};

struct SiteView {
  std::vector<wire::StatusDocument> runs;
  std::vector<wire::PublishedNode> nodes;
  std::vector<wire::StatusAlert> alerts;      // of no run
  std::vector<wire::StatusSilence> silences;  // in force
  DaemonHealth health;
};

}  // namespace stoker::daemon
