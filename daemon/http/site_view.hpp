// SiteView: what the web page, /metrics and /api show: a copy of what was last published, and the
// daemon's own health. The engine's thread makes it, the loop's thread serves it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/time.hpp"
#include "daemon/publish/shared_history.hpp"
#include "wire/agent_event.hpp"
#include "wire/health.hpp"
#include "wire/held.hpp"
#include "wire/sinks.hpp"
#include "wire/status.hpp"

namespace stoker::daemon {

struct RunParts {
  std::shared_ptr<const SharedHistory> history;
  std::optional<wire::Beat> live;  // the newest heartbeat, of runs with agents
};

struct SiteView {
  std::vector<wire::StatusDocument> runs;  // by name
  std::map<std::string, bool> made;        // documents of now: is more new than ages
  std::map<std::string, RunParts> parts;   // by run
  std::vector<wire::PublishedNode> nodes;
  std::vector<wire::StatusAlert> alerts;      // of no run
  std::vector<wire::StatusSilence> silences;  // in force
  std::vector<wire::FailingSink> failing;
  std::vector<wire::HeldAlert> held;  // alerts that wait or are silenced
  wire::DaemonHealth health;
};

}  // namespace stoker::daemon
