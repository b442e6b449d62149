// Sink `exec`: runs a command (no shell) with the alert as one JSON document on standard input.
// Exit 0: delivered; 65 (EX_DATAERR): refused; any other end, or the time limit: tried again. Of
// the environment only PATH, HOME, USER, LOGNAME, LANG, TZ and TMPDIR are passed on.
#include "alerts/http_sink.hpp"

namespace stoker::alerts {

namespace {

constexpr int kRefused = 65;

class ExecSink : public Sink {
 public:
  explicit ExecSink(core::SinkPolicy policy) : policy_(std::move(policy)) {}

  Result<Request> request(const RenderedAlert& alert, WallTime) const override {
    Json document(fields_of(alert));
    document["version"] = 1;
    document["labels"] = alert.labels;
    document["update"] = alert.update;
    if (!alert.also.empty()) document["also"] = Json(alert.also);
    STOKER_TRY(timeout, timeout_of(policy_, 10s));
    return Request{ExecRequest{list_of(policy_, "command"), dump_json(document) + "\n", timeout}};
  }
  Delivery judge(const Answer& answer) const override {
    if (answer.error.empty()) return Delivered{};
    if (answer.status == kRefused) return Refused{answer.error};
    return Retry{answer.error};
  }

 private:
  core::SinkPolicy policy_;
};

Status check(const core::SinkPolicy& policy) {
  const std::string object = "alerts.sinks." + policy.name;
  const auto command = list_of(policy, "command");
  if (command.empty() || command.front().empty())
    return fail("command must be a list: [program, argument, …]", object);
  for (const std::string& argument : command)
    if (argument.find('\0') != std::string::npos)
      return fail("command has an argument with a zero byte", object);
  if (command.size() == 1 && command.front().find(' ') != std::string::npos)
    return fail("command is run without a shell: write [program, argument, …]", object);
  if (command.front().find('=') != std::string::npos)  // env(1), which executes it, sets a variable
    return fail("command names a program with a '=' in its name: give it another", object);
  STOKER_TRY_STATUS(timeout_of(policy, 10s));
  return ok();
}

Result<std::unique_ptr<Sink>> make(const core::SinkPolicy& policy) {
  return std::unique_ptr<Sink>(std::make_unique<ExecSink>(policy));
}

}  // namespace

SinkKind exec_kind() {
  return {"exec",
          {{"command", "[program, argument, …], run without a shell", true},
           {"timeout", "then the command is stopped; default 10s"}},
          check,
          make};
}

}  // namespace stoker::alerts
