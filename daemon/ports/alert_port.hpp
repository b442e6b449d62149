// AlertPort: the Alerts port over the outbox of alerts/, with its words for the loop.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "alerts/dead_man.hpp"
#include "core/engine/ports.hpp"
#include "wire/held.hpp"
#include "wire/sinks.hpp"

namespace stoker::alerts {
class OutboxAlerts;
}

namespace stoker::daemon {

class AlertPort final : public core::Alerts {
 public:
  static Result<std::unique_ptr<AlertPort>> open(const std::string& state_directory);
  ~AlertPort() override;
  Status accept(const EffectKey& key, const core::SendAlert& alert,
                const core::AlertPolicy& policy) override;
  // All open alerts, and which of them a silence keeps back: before repeat().
  void note_open(const std::vector<core::SendAlert>& open, const std::set<std::string>& silenced);
  // Repeats what stays open to the sinks whose `repeat` has passed, and escalates it.
  void repeat(const std::vector<core::SendAlert>& open, const core::AlertPolicy& policy);
  // One test alert through every sink of the policy, or (dry run) only what it would be. `text`:
  // how each took it, in words; `sinks`: an array of {sink, kind, ok, detail, request}. Blocks a
  // few seconds; one thread.
  struct Tested {
    bool ok = true;
    std::string text;
    Json sinks = Json::array();
  };
  Tested test(const core::AlertPolicy& policy, bool dry_run);
  // A complete pass: the dead-man's switches of these runs are called where that is due.
  void passed(const std::vector<alerts::ObservedRun>& runs);
  // The run's sinks that do not deliver, and its dead-man's switch where its calls do not arrive.
  [[nodiscard]] std::vector<wire::FailingSink> failing(const std::string& run,
                                                       const core::AlertPolicy& policy) const;
  // What rules hold back (docs/operations.md).
  [[nodiscard]] std::vector<wire::HeldAlert> held() const;
  // False: something still waits after `limit`.
  bool wait_idle(Duration limit);

 private:
  explicit AlertPort(std::unique_ptr<alerts::OutboxAlerts> outbox);
  std::unique_ptr<alerts::OutboxAlerts> outbox_;
  alerts::DeadMan dead_man_;
};

}  // namespace stoker::daemon
