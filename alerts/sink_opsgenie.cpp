// Sink `opsgenie`: Alert API v2. One incident is one alias: created, acknowledged, closed. Limits:
// message 130, description 15000, alias 512 characters.
#include "alerts/http_sink.hpp"
#include "alerts/url.hpp"
#include "common/hash.hpp"

namespace stoker::alerts {

namespace {

constexpr const char* kService = "https://api.opsgenie.com";

const char* priority_of(const RenderedAlert& alert) {
  switch (alert.severity) {
    case core::Severity::Critical: return "P1";
    case core::Severity::Warning: return "P3";
    case core::Severity::Info: break;
  }
  return "P5";
}

class OpsgenieSink : public HttpSink {
 public:
  explicit OpsgenieSink(core::SinkPolicy policy) : HttpSink(std::move(policy), kService) {}

  Result<HttpRequest> compose(const RenderedAlert& alert, WallTime) const override {
    const std::string alias =
        alert.id.size() <= 512 ? alert.id : "stoker-" + hex64(xxh3_64(alert.id));
    const bool firing = status_of(alert) == "firing";
    const std::string verb = alert.resolved ? "close" : "acknowledge";
    STOKER_TRY(request, request_to(firing ? "/v2/alerts"
                                          : "/v2/alerts/" + url_encoded(alias) + "/" + verb +
                                                "?identifierType=alias"));
    STOKER_TRY_STATUS(authorize(request, "key_file", "GenieKey "));
    if (!firing)
      return with_json(std::move(request),
                       {{"source", "stoker"}, {"note", cut(verdict_of(alert), 2000)}});
    Json details(alert.labels);
    details["command"] = alert.command;
    return with_json(std::move(request), {{"message", title_of(alert)},
                                          {"alias", alias},
                                          {"description", cut(text_of(alert), 14000)},
                                          {"priority", priority_of(alert)},
                                          {"source", "stoker"},
                                          {"tags", Json::array({"stoker", alert.kind})},
                                          {"details", details}});
  }

 protected:
  Delivery accept(const Answer& answer) const override {
    if (!answer_field(answer, "requestId").empty()) return Delivered{};
    return Retry{"answer " + std::to_string(answer.status) +
                 " without a requestId: " + one_line(answer.body, 100)};
  }
};

}  // namespace

SinkKind opsgenie_kind() {
  return {"opsgenie",
          http_options(UrlIs::Known, {{"key_file", "file that holds the API key alone", true}}),
          check_url_option<UrlIs::Known>,
          make_http_sink<OpsgenieSink>,
          Duration::zero(),
          Duration::zero(),
          false,
          true};
}

}  // namespace stoker::alerts
