// AlertPort: the Alerts port over the outbox of alerts/, with its words for the loop.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/ports.hpp"

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
  // Tells what stays open again to the sinks whose `repeat` has passed.
  void repeat(const std::vector<core::SendAlert>& open, const core::AlertPolicy& policy);
  // One test alert through every sink of the policy; how each took it, in words. Blocks up to the
  // longest time-out; one thread.
  Result<std::string> test(const core::AlertPolicy& policy);
  // False: something still waits after `limit`.
  bool wait_idle(Duration limit);

 private:
  explicit AlertPort(std::unique_ptr<alerts::OutboxAlerts> outbox);
  std::unique_ptr<alerts::OutboxAlerts> outbox_;
};

}  // namespace stoker::daemon
