// Sink `pulse`: appends to a log of logs, one line an alert, in the form of the chronicles. Needs
// nothing but a disk; the outbox always has one of its own at <state>/pulse.log.
#include "alerts/http_sink.hpp"

namespace stoker::alerts {

namespace {

class PulseSink : public Sink {
 public:
  explicit PulseSink(std::string path) : path_(std::move(path)) {}
  Result<Request> request(const RenderedAlert& alert, WallTime) const override {
    return Request{AppendRequest{path_, pulse_line(alert)}};
  }
  Delivery judge(const Answer& answer) const override {
    if (!answer.error.empty()) return Retry{answer.error};
    return Delivered{};
  }

 private:
  std::string path_;
};

Status check(const core::SinkPolicy& policy) {
  const std::string path = option_of(policy, "path");
  if (!path.starts_with("/"))
    return fail("path \"" + path + "\" is not absolute", "alerts.sinks." + policy.name);
  return ok();
}

Result<std::unique_ptr<Sink>> make(const core::SinkPolicy& policy) {
  return std::unique_ptr<Sink>(std::make_unique<PulseSink>(option_of(policy, "path")));
}

}  // namespace

SinkKind pulse_kind() {
  return {"pulse",
          {{"path", "absolute path of the file to append to", true}},
          check,
          make,
          Duration::zero(),
          Duration::zero(),
          true};
}

}  // namespace stoker::alerts
