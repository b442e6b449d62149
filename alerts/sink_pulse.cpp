// Sink `pulse`: appends to a log of logs, one line an alert, in the form of the chronicles. Needs
// nothing but a disk; the outbox always has one of its own at <state>/pulse.log.
#include "alerts/sink.hpp"
#include "common/os/files.hpp"

namespace stoker::alerts {

namespace {

class PulseSink : public Sink {
 public:
  explicit PulseSink(std::string path) : path_(std::move(path)) {}
  std::variant<Delivery, HttpRequest> deliver(const RenderedAlert& alert) override {
    const auto written = os::append_file(path_, pulse_line(alert), os::Durability::Synced);
    if (!written) return Delivery{Retry{written.error().message(), {}}};
    return Delivery{Delivered{}};
  }

 private:
  std::string path_;
};

Status check(const core::SinkPolicy& policy) {
  const std::string& path = policy.options.at("path");
  if (!path.starts_with("/"))
    return fail("path \"" + path + "\" is not absolute", "alerts.sinks." + policy.name);
  return ok();
}

Result<std::unique_ptr<Sink>> make(const core::SinkPolicy& policy) {
  return std::unique_ptr<Sink>(std::make_unique<PulseSink>(policy.options.at("path")));
}

}  // namespace

SinkKind pulse_kind() {
  return {"pulse", {{"path", "absolute path of the file to append to", true}}, check, make};
}

}  // namespace stoker::alerts
