// Sink `teams`: an Adaptive Card to a Workflows (Power Automate) address. Limit: 28 KB, four
// messages a second.
#include "alerts/http_sink.hpp"

namespace stoker::alerts {

namespace {

Json block(const std::string& text, bool strong) {
  Json out{{"type", "TextBlock"}, {"text", text}, {"wrap", true}};
  if (strong) out["weight"] = "Bolder";
  return out;
}

class TeamsSink : public HttpSink {
 public:
  explicit TeamsSink(core::SinkPolicy policy) : HttpSink(std::move(policy)) {}

  Result<Request> request(const RenderedAlert& alert, WallTime) const override {
    STOKER_TRY(request, request_to());
    Json title = block(title_of(alert), true);
    title["size"] = "Large";
    title["color"] = alert.resolved                               ? "Good"
                     : alert.severity == core::Severity::Critical ? "Attention"
                                                                  : "Warning";
    Json body = Json::array({title, block(verdict_of(alert), true)});
    if (!alert.instead_of.empty())
      body.push_back(block("Sent here because another sink failed: " + alert.instead_of, false));
    if (!alert.reason.empty()) body.push_back(block(cut(alert.reason, 4000), false));
    if (!alert.report.empty()) body.push_back(block(cut(alert.report, 12000), false));
    body.push_back(
        block("since " + format_rfc3339(alert.since) + ", incident " + cut(alert.id, 300), false));
    const Json card{{"$schema", "http://adaptivecards.io/schemas/adaptive-card.json"},
                    {"type", "AdaptiveCard"},
                    {"version", "1.4"},
                    {"body", body}};
    const Json attachment{{"contentType", "application/vnd.microsoft.card.adaptive"},
                          {"content", card}};
    return post_json(std::move(request),
                     {{"type", "message"}, {"attachments", Json::array({attachment})}});
  }

 protected:
  // A page of a proxy, or the old connectors' words for a failure.
  Delivery accept(const Answer& answer) const override {
    if (answer.body.find('<') == std::string::npos &&
        answer.body.find("failed") == std::string::npos)
      return Delivered{};
    return Retry{"answer " + std::to_string(answer.status) +
                 " says otherwise: " + one_line(answer.body, 100)};
  }
};

}  // namespace

SinkKind teams_kind() {
  return {"teams", http_options(UrlIs::Secret), check_url_option<UrlIs::Secret>,
          make_http_sink<TeamsSink>, 250ms};
}

}  // namespace stoker::alerts
