// Sink `ntfy`: the address ends in the topic (https://ntfy.sh/my-topic); the message is published
// as JSON, so that any text is possible. Limit: 4096 bytes a message. The topic is a password: on a
// public server use url_file.
#include "alerts/http_sink.hpp"
#include "alerts/url.hpp"

namespace stoker::alerts {

namespace {

int priority_of(const RenderedAlert& alert) {
  if (status_of(alert) != "firing") return 2;
  switch (alert.severity) {
    case core::Severity::Critical: return 5;
    case core::Severity::Warning: return 3;
    case core::Severity::Info: break;
  }
  return 2;
}

class NtfySink : public HttpSink {
 public:
  explicit NtfySink(core::SinkPolicy policy) : HttpSink(std::move(policy)) {}

  Result<Request> request(const RenderedAlert& alert, WallTime) const override {
    STOKER_TRY(request, request_to());
    STOKER_TRY_STATUS(authorize(request, "token_file", "Bearer "));
    while (request.url.ends_with('/')) request.url.pop_back();
    const auto slash = request.url.rfind('/');
    const auto url = parse_url(request.url);
    if (!url || slash + 1 >= request.url.size() || url->path.size() < 2)
      return fail("the address of an ntfy sink ends in its topic", "alerts.sinks." + name());
    const std::string topic = request.url.substr(slash + 1);
    request.url.resize(slash + 1);
    const bool red = alert.severity == core::Severity::Critical;
    const char* tag = alert.resolved ? "white_check_mark" : red ? "rotating_light" : "warning";
    Json body{{"topic", topic},
              {"title", title_of(alert)},
              {"message", cut(text_of(alert), 4000)},
              {"priority", priority_of(alert)},
              {"tags", Json::array({tag, alert.kind})}};
    if (!alert.page.empty()) body["click"] = alert.page;
    return post_json(std::move(request), body);
  }

 protected:
  Delivery accept(const Answer& answer) const override {
    if (!answer_field(answer, "id").empty()) return Delivered{};
    return Retry{"answer " + std::to_string(answer.status) +
                 " without an id: " + one_line(answer.body, 100)};
  }
};

}  // namespace

SinkKind ntfy_kind() {
  return {"ntfy",
          http_options(UrlIs::Plain, {{"token_file", "file that holds the access token alone"}}),
          check_url_option<UrlIs::Plain>, make_http_sink<NtfySink>};
}

}  // namespace stoker::alerts
