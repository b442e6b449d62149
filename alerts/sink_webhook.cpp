// Sink `webhook`: POSTs JSON in Alertmanager's webhook format, version 4, which many bridges eat.
// The URL may be a secret: then it stands alone in a file (`url_file`), read at each delivery, so
// that it can be changed without a restart. Redirects are not followed.
#include "alerts/sink.hpp"
#include "common/hash.hpp"
#include "common/os/files.hpp"

namespace stoker::alerts {

namespace {

constexpr const char* kNever = "0001-01-01T00:00:00Z";  // endsAt of what still goes on

Json payload(const RenderedAlert& alert, const std::string& receiver) {
  const char* status = alert.resolved ? "resolved" : "firing";
  Json labels = alert.labels;
  labels["alertname"] = alert.kind;
  Json annotations{{"summary", title_of(alert)}, {"reason", alert.reason}};
  if (!alert.command.empty()) annotations["command"] = alert.command;
  if (!alert.report.empty()) annotations["report"] = alert.report;
  const Json one{{"status", status},
                 {"labels", labels},
                 {"annotations", annotations},
                 {"startsAt", format_rfc3339(alert.since, true)},
                 {"endsAt", alert.resolved ? format_rfc3339(alert.at, true) : kNever},
                 {"generatorURL", ""},
                 {"fingerprint", hex64(xxh3_64(alert.id))}};
  return {
      {"version", "4"},         {"groupKey", "{}:{id=\"" + alert.id + "\"}"},
      {"truncatedAlerts", 0},   {"status", status},
      {"receiver", receiver},   {"groupLabels", {{"alertname", alert.kind}, {"run", alert.run}}},
      {"commonLabels", labels}, {"commonAnnotations", annotations},
      {"externalURL", ""},      {"alerts", Json::array({one})}};
}

bool is_http(const std::string& url) {
  return url.starts_with("http://") || url.starts_with("https://");
}

Result<std::string> read_secret(const std::string& path) {
  STOKER_TRY(text, os::read_file(path, 64u << 10));
  const auto end = text.find_last_not_of(" \t\r\n");
  std::string secret = text.substr(0, end == std::string::npos ? 0 : end + 1);
  if (secret.empty() || secret.find_first_of("\r\n") != std::string::npos)
    return fail("holds no secret in its only line", path);
  return secret;
}

class WebhookSink : public Sink {
 public:
  WebhookSink(core::SinkPolicy policy, Duration timeout)
      : policy_(std::move(policy)), timeout_(timeout) {}

  std::variant<Delivery, HttpRequest> deliver(const RenderedAlert& alert) override {
    HttpRequest request;
    const auto url = value_of("url");
    if (!url) return Delivery{Retry{url.error().message(), {}}};
    if (!is_http(*url)) return Delivery{Retry{"the URL is neither http nor https", {}}};
    request.url = *url;
    request.headers = {"Content-Type: application/json",
                       "Idempotency-Key: " + one_line(alert.key.text, 200)};
    if (policy_.options.contains("authorization_file")) {
      const auto secret = read_secret(policy_.options.at("authorization_file"));
      if (!secret) return Delivery{Retry{secret.error().message(), {}}};
      request.headers.push_back("Authorization: " + *secret);
    }
    request.body = dump_json(payload(alert, policy_.name));
    request.timeout = timeout_;
    return request;
  }

 private:
  Result<std::string> value_of(const std::string& option) const {
    const auto direct = policy_.options.find(option);
    if (direct != policy_.options.end()) return direct->second;
    return read_secret(policy_.options.at(option + "_file"));
  }
  core::SinkPolicy policy_;
  Duration timeout_;
};

Result<Duration> timeout_of(const core::SinkPolicy& policy) {
  const auto text = policy.options.find("timeout");
  if (text == policy.options.end()) return Duration(10s);
  STOKER_TRY(timeout, parse_duration(text->second));
  if (timeout < 100ms || timeout > 5min)
    return fail("timeout must be between 100ms and 5min", "alerts.sinks." + policy.name);
  return timeout;
}

Status check(const core::SinkPolicy& policy) {
  const std::string object = "alerts.sinks." + policy.name;
  const auto url = policy.options.find("url");
  const bool has_file = policy.options.contains("url_file");
  if ((url != policy.options.end()) == has_file)
    return fail("needs either url or url_file", object);
  if (url != policy.options.end() && !is_http(url->second))
    return fail("url \"" + url->second + "\" is neither http:// nor https://", object);
  STOKER_TRY_STATUS(timeout_of(policy));
  return ok();
}

Result<std::unique_ptr<Sink>> make(const core::SinkPolicy& policy) {
  STOKER_TRY(timeout, timeout_of(policy));
  return std::unique_ptr<Sink>(std::make_unique<WebhookSink>(policy, timeout));
}

}  // namespace

SinkKind webhook_kind() {
  return {"webhook",
          {{"url", "http or https address"},
           {"url_file", "file that holds the address alone, when it is a secret"},
           {"timeout", "for the whole request; default 10s"},
           {"authorization_file", "file with the value of the Authorization header"}},
          check,
          make};
}

}  // namespace stoker::alerts
