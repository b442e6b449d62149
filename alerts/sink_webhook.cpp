// Sink `webhook`: POSTs JSON in Alertmanager's webhook format, version 4, which many bridges eat.
// The URL may be a secret: then it stands alone in a file (`url_file`), read at each delivery, so
// that it can be changed without a restart. Redirects are not followed. With `template` the body is
// what the receiver wants: named fields, escaped for JSON.
#include "alerts/http_sink.hpp"
#include "alerts/template.hpp"
#include "common/hash.hpp"

namespace stoker::alerts {

namespace {

constexpr const char* kNever = "0001-01-01T00:00:00Z";  // endsAt of what still goes on

// The others of the alert's group, in its list.
void add_grouped(Json& list, const RenderedAlert& alert) {
  for (const GroupedAlert& other : alert.also) {
    Json labels = other.labels;
    labels["alertname"] = other.kind;
    list.push_back({{"status", alert.resolved ? "resolved" : "firing"},
                    {"labels", labels},
                    {"annotations", {{"summary", other.title}, {"reason", other.reason}}},
                    {"startsAt", format_rfc3339(other.since, true)},
                    {"endsAt", alert.resolved ? format_rfc3339(alert.at, true) : kNever},
                    {"generatorURL", alert.page},
                    {"fingerprint", hex64(xxh3_64(other.id))}});
  }
}

Json payload(const RenderedAlert& alert, const std::string& receiver) {
  const char* status = alert.resolved ? "resolved" : "firing";
  Json labels = alert.labels;
  labels["alertname"] = alert.kind;
  Json annotations{{"summary", title_of(alert)}, {"reason", alert.reason}};
  if (!alert.command.empty()) annotations["command"] = alert.command;
  if (!alert.report.empty()) annotations["report"] = alert.report;
  if (!alert.impact.empty()) annotations["impact"] = alert.impact;
  if (!alert.progress.empty()) annotations["progress"] = alert.progress;
  if (!alert.acknowledged_by.empty()) annotations["acknowledged_by"] = alert.acknowledged_by;
  if (!alert.instead_of.empty()) annotations["instead_of"] = alert.instead_of;
  if (!alert.escalated.empty()) annotations["escalated"] = alert.escalated;
  const Json one{{"status", status},
                 {"labels", labels},
                 {"annotations", annotations},
                 {"startsAt", format_rfc3339(alert.since, true)},
                 {"endsAt", alert.resolved ? format_rfc3339(alert.at, true) : kNever},
                 {"generatorURL", alert.page},
                 {"fingerprint", hex64(xxh3_64(alert.id))}};
  Json list = Json::array({one});
  add_grouped(list, alert);
  return {{"version", "4"},
          {"groupKey", "{}:{id=\"" + alert.id + "\"}"},
          {"truncatedAlerts", 0},
          {"status", status},
          {"receiver", receiver},
          {"groupLabels", {{"alertname", alert.kind}, {"run", alert.run}}},
          {"commonLabels", labels},
          {"commonAnnotations", annotations},
          {"externalURL", alert.page},
          {"alerts", list}};
}

class WebhookSink : public HttpSink {
 public:
  explicit WebhookSink(core::SinkPolicy policy) : HttpSink(std::move(policy)) {}

  Result<HttpRequest> compose(const RenderedAlert& alert, WallTime) const override {
    STOKER_TRY(request, request_to());
    request.headers = {"Idempotency-Key: " + one_line(alert.key.text, 200)};
    STOKER_TRY_STATUS(authorize(request, "authorization_file", ""));
    const std::string pattern = option("template");
    if (pattern.empty()) {
      request.headers.emplace_back("Content-Type: application/json");
      request.body = dump_json(payload(alert, name()));
      return request;
    }
    const std::string type = content_type(option("content_type"));
    request.headers.push_back("Content-Type: " + type);
    request.body =
        fill_template(pattern, fields_of(alert), field_form(type).value_or(FieldForm::Json));
    return request;
  }

  static std::string content_type(const std::string& given) {
    return given.empty() ? "application/json" : given;
  }
};

Status check(const core::SinkPolicy& policy) {
  const std::string object = "alerts.sinks." + policy.name;
  STOKER_TRY_STATUS(check_http(policy, UrlIs::Plain));
  const std::string pattern = option_of(policy, "template");
  const std::string type = option_of(policy, "content_type");
  if (type.find_first_of("\r\n") != std::string::npos)
    return fail("content_type must be one line", object);
  const auto known = fields_of(RenderedAlert{});
  if (const auto fields = check_template(pattern, known); !fields)
    return fail(fields.error().what, object);
  const auto form = field_form(WebhookSink::content_type(type));
  if (!pattern.empty() && !form)
    return fail("how a field is written in " + one_line(type, 100) + " is not known", object,
                "known content types: …/json, application/x-www-form-urlencoded, …/xml, …/html, "
                "text/plain");
  if (form == FieldForm::Json && !pattern.empty() &&
      !parse_json(fill_template(pattern, known, *form), object))
    return fail("the template is no JSON; another content_type may be given", object);
  return ok();
}

}  // namespace

SinkKind webhook_kind() {
  return {"webhook",
          http_options(UrlIs::Plain,
                       {{"authorization_file", "file with the value of the Authorization header"},
                        {"template", "the body, with fields like {title}, {text}, {severity}"},
                        {"content_type", "of the template; default application/json"}}),
          check, make_http_sink<WebhookSink>};
}

}  // namespace stoker::alerts
