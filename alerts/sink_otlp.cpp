// Sink `otlp`: one log record an alert, by OTLP/HTTP with JSON to <url>/v1/logs.
#include "alerts/http_sink.hpp"
#include "common/os/files.hpp"

namespace stoker::alerts {

namespace {

int severity_number(core::Severity severity) {
  switch (severity) {
    case core::Severity::Critical: return 21;  // FATAL
    case core::Severity::Warning: return 13;   // WARN
    case core::Severity::Info: break;
  }
  return 9;  // INFO
}

Json attribute(const std::string& key, const std::string& value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}

class OtlpSink : public HttpSink {
 public:
  explicit OtlpSink(core::SinkPolicy policy) : HttpSink(std::move(policy)) {}

  Result<HttpRequest> compose(const RenderedAlert& alert, WallTime) const override {
    STOKER_TRY(request, request_to("/v1/logs"));
    STOKER_TRY_STATUS(authorize(request, "authorization_file", ""));
    Json attributes = Json::array();
    for (const auto& [key, value] : alert.labels) attributes.push_back(attribute(key, value));
    attributes.push_back(attribute("incident", alert.id));
    attributes.push_back(attribute("status", status_of(alert)));
    attributes.push_back(attribute("command", alert.command));
    const core::Severity severity = alert.resolved ? core::Severity::Info : alert.severity;
    const Json record{{"timeUnixNano", std::to_string(alert.at.time_since_epoch().count())},
                      {"severityNumber", severity_number(severity)},
                      {"severityText", std::string(name_of(severity))},
                      {"body", {{"stringValue", text_of(alert)}}},
                      {"attributes", attributes}};
    const Json scope{{"scope", {{"name", "stoker"}}}, {"logRecords", Json::array({record})}};
    const Json resource{{"resource",
                         {{"attributes", Json::array({attribute("service.name", "stoker"),
                                                      attribute("host.name", os::host_name())})}}},
                        {"scopeLogs", Json::array({scope})}};
    return with_json(std::move(request), {{"resourceLogs", Json::array({resource})}});
  }

 protected:
  Delivery accept(const Answer& answer) const override {
    const auto body = parse_json(answer.body, "answer");
    if (!body || !body->is_object())
      return Retry{"answer " + std::to_string(answer.status) +
                   " is not OTLP: " + one_line(answer.body, 100)};
    const std::string partial = answer_field(answer, "partialSuccess");
    const bool rejected = partial.find("rejectedLogRecords") != std::string::npos &&
                          partial.find("\"rejectedLogRecords\":0") == std::string::npos &&
                          partial.find("\"rejectedLogRecords\":\"0\"") == std::string::npos;
    if (rejected) return Refused{"the record was rejected: " + one_line(partial, 200)};
    return Delivered{};
  }
};

}  // namespace

SinkKind otlp_kind() {
  return {"otlp",
          http_options(UrlIs::Plain,
                       {{"authorization_file", "file with the value of the Authorization header"}}),
          check_url_option<UrlIs::Plain>,
          make_http_sink<OtlpSink>,
          Duration::zero(),
          Duration::zero(),
          true};
}

}  // namespace stoker::alerts
