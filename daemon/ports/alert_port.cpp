// AlertPort: one adapter between two vocabularies.
#include "daemon/ports/alert_port.hpp"

#include <algorithm>
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

void AlertPort::note_open(const std::vector<core::SendAlert>& open,
                          const std::set<std::string>& silenced) {
  outbox_->note_open(open, silenced);
}

std::vector<wire::HeldAlert> AlertPort::held() const {
  std::vector<wire::HeldAlert> all;
  for (const alerts::HeldAlert& held : outbox_->held())
    all.push_back({held.id, held.sink, held.hold.rule,
                   held.hold.until ? format_rfc3339(*held.hold.until) : std::string()});
  return all;
}

void AlertPort::passed(const std::vector<alerts::ObservedRun>& runs) {
  dead_man_.passed(runs, monotonic_now());
}

AlertPort::Tested AlertPort::test(const core::AlertPolicy& policy, bool dry_run) {
  Tested tested;
  for (const alerts::SinkTest& sink : dry_run ? outbox_->preview(policy) : outbox_->test(policy)) {
    tested.ok = tested.ok && sink.ok;
    tested.text +=
        fmt::format("{}{}: {}{}", tested.text.empty() ? "" : "; ", sink.sink,
                    sink.ok ? "ok" : "failed", sink.detail.empty() ? "" : " " + sink.detail);
    tested.sinks.push_back({{"sink", sink.sink},
                            {"kind", sink.kind},
                            {"ok", sink.ok},
                            {"detail", sink.detail},
                            {"request", sink.shown}});
  }
  return tested;
}

std::vector<wire::FailingSink> AlertPort::failing(const std::string& run,
                                                  const core::AlertPolicy& policy) const {
  std::vector<wire::FailingSink> all;
  for (const alerts::SinkTrouble& trouble : outbox_->troubles(policy)) {
    wire::FailingSink sink{run,
                           trouble.sink,
                           trouble.kind,
                           format_rfc3339(trouble.since),
                           trouble.why,
                           trouble.failures,
                           {}};
    for (const alerts::LostAlert& lost : trouble.lost) sink.lost.push_back(lost.title);
    all.push_back(std::move(sink));
  }
  if (const auto trouble = dead_man_.trouble(RunName(run)))
    all.push_back({run,
                   "dead_man",
                   "dead_man",
                   format_rfc3339(trouble->since),
                   trouble->why,
                   trouble->failures,
                   {}});
  return all;
}

bool AlertPort::wait_idle(Duration limit) {
  const Instant end = monotonic_now() + limit;
  return outbox_->wait_idle(limit) &&
         dead_man_.wait_idle(std::max<Duration>(end - monotonic_now(), 0ns));
}

}  // namespace stoker::daemon
