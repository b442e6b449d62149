// SinkHealth: which sinks do not deliver, since when, why, and which alerts they did not take. A
// sink is healthy again with its next success. Kept in <outbox>/sinks.json, so that a restart
// forgets nothing. Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "alerts/render.hpp"
#include "core/policy.hpp"

namespace stoker::alerts {

struct LostAlert {  // refused, or given up
  std::string id, title, why;
  WallTime at;
  core::Severity severity = core::Severity::Info;
  STOKER_FIELDS(LostAlert, id, title, why, at, severity)
};
struct SinkTrouble {
  std::string sink, kind;
  WallTime since;   // first failure in a row
  std::string why;  // the last one
  std::uint32_t failures = 0;
  std::vector<LostAlert> lost;  // the last ones, oldest first
  STOKER_FIELDS(SinkTrouble, sink, kind, since, why, failures, lost)
};

// By name and options: runs may use one name for different sinks.
std::string key_of(const core::SinkPolicy& sink);

class SinkHealth {
 public:
  explicit SinkHealth(std::string path) : path_(std::move(path)) {}

  Status load();  // a missing file is good
  void worked(const core::SinkPolicy& sink);
  void failed(const core::SinkPolicy& sink, const std::string& why, WallTime now);
  void lost(const core::SinkPolicy& sink, const RenderedAlert& alert, const std::string& why,
            WallTime now);
  // Of these sinks, as they are configured now.
  [[nodiscard]] std::vector<SinkTrouble> troubles(const std::vector<core::SinkPolicy>& sinks) const;

 private:
  void save() const;
  std::string path_;
  std::map<std::string, SinkTrouble> troubles_;  // by the sink's name and options
};

}  // namespace stoker::alerts
