// Sink `teams`: an Adaptive Card to a Workflows (Power Automate) address. Limit: 28 KB, four
// messages a second.
#include <algorithm>

#include "alerts/http_sink.hpp"

namespace stoker::alerts {

namespace {

// Runs of text know no Markdown: no text of others becomes a link.
Json block(const std::string& text, Json look = Json::object()) {
  look["type"] = "TextRun";
  look["text"] = text;
  return {{"type", "RichTextBlock"}, {"inlines", Json::array({std::move(look)})}};
}

// Inside a run a line break would be a space.
void add_lines(Json& body, const std::string& text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) {
      body.push_back(block(text.substr(begin, end - begin)));
      body.back()["spacing"] = begin == 0 ? "Default" : "None";
    }
    begin = end + 1;
  }
}

class TeamsSink : public HttpSink {
 public:
  explicit TeamsSink(core::SinkPolicy policy) : HttpSink(std::move(policy)) {}

  Result<Request> request(const RenderedAlert& alert, WallTime) const override {
    STOKER_TRY(request, request_to());
    const char* color = alert.resolved                               ? "Good"
                        : alert.severity == core::Severity::Critical ? "Attention"
                                                                     : "Warning";
    Json body = Json::array(
        {block(title_of(alert), {{"weight", "Bolder"}, {"size", "Large"}, {"color", color}}),
         block(verdict_of(alert), {{"weight", "Bolder"}})});
    if (!alert.instead_of.empty())
      body.push_back(block("Sent here because another sink failed: " + alert.instead_of));
    if (!alert.reason.empty()) body.push_back(block(cut(alert.reason, 4000)));
    add_lines(body, detail_lines(alert));
    add_lines(body, cut(alert.report, 12000));
    body.push_back(
        block("since " + format_rfc3339(alert.since) + ", incident " + cut(alert.id, 300)));
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
