// AlertPort: one adapter between two vocabularies.
#include "daemon/ports/alert_port.hpp"

#include <fmt/format.h>

#include "alerts/outbox.hpp"

namespace stoker::daemon {

AlertPort::AlertPort(std::unique_ptr<alerts::OutboxAlerts> outbox) : outbox_(std::move(outbox)) {}
AlertPort::~AlertPort() = default;

Result<std::unique_ptr<AlertPort>> AlertPort::open(const std::string& state_directory) {
  alerts::OutboxOptions options;
  options.directory = state_directory + "/outbox";
  options.pulse_path = state_directory + "/pulse.log";
  STOKER_TRY(outbox, alerts::OutboxAlerts::open(options));
  return std::unique_ptr<AlertPort>(new AlertPort(std::move(outbox)));
}

Status AlertPort::accept(const EffectKey& key, const core::SendAlert& alert,
                         const core::AlertPolicy& policy) {
  return outbox_->accept(key, alert, policy);
}

void AlertPort::repeat(const std::vector<core::SendAlert>& open, const core::AlertPolicy& policy) {
  outbox_->repeat_open(open, policy);
}

Result<std::string> AlertPort::test(const core::AlertPolicy& policy) {
  std::string text;
  bool good = true;
  for (const alerts::SinkTest& sink : outbox_->test(policy)) {
    good = good && sink.ok;
    text += fmt::format("{}{}: {}{}", text.empty() ? "" : "; ", sink.sink,
                        sink.ok ? "ok" : "failed", sink.detail.empty() ? "" : " " + sink.detail);
  }
  if (!good) return fail(text, "alerts", "mend the sink in RUN.yaml");
  return text;
}

bool AlertPort::wait_idle(Duration limit) {
  return outbox_->wait_idle(limit);
}

}  // namespace stoker::daemon
