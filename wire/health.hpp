// <state>/published/health.json: the daemon's own health, as the page, /metrics and
// `stoker metrics` show it. The daemon replaces it with the rest of what it publishes.
#pragma once

#include <string>

#include "common/json.hpp"

namespace stoker::wire {

struct DaemonHealth {
  std::string build;
  std::uint32_t epoch = 0;
  double uptime_s = 0;
  std::uint64_t journal_rows = 0;
  std::uint64_t effects_waiting = 0;
  std::string journal_trouble;    // "" = it can be written
  std::string scheduler_trouble;  // "" = the last answers were good
  std::string published = {};     // RFC 3339
  STOKER_FIELDS(DaemonHealth, build, epoch, uptime_s, journal_rows, effects_waiting,
                journal_trouble, scheduler_trouble, published)
};

}  // namespace stoker::wire
