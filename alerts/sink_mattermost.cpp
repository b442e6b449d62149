// Sink `mattermost`: an incoming webhook with one attachment. Old servers cut posts at 4000
// characters.
#include "alerts/http_sink.hpp"

namespace stoker::alerts {

namespace {

class MattermostSink : public HttpSink {
 public:
  explicit MattermostSink(core::SinkPolicy policy) : HttpSink(std::move(policy)) {}

  Result<Request> request(const RenderedAlert& alert, WallTime) const override {
    STOKER_TRY(request, request_to());
    const bool red = alert.severity == core::Severity::Critical;
    std::string text = "**" + plain_in_chat(verdict_of(alert)) + "**\n";
    if (!alert.instead_of.empty())
      text += "Sent here because another sink failed: " + plain_in_chat(alert.instead_of) + "\n";
    if (!alert.reason.empty()) text += plain_in_chat(alert.reason) + "\n";
    text += plain_in_chat(detail_lines(alert));
    if (!alert.report.empty()) text += plain_in_chat(alert.report);
    const std::string title = title_of(alert);
    const Json attachment{
        {"fallback", cut(plain_in_chat(title + ". " + verdict_of(alert)), 1000)},
        {"color", alert.resolved ? "#2e7d32"
                  : red          ? "#c62828"
                                 : "#b26a00"},
        {"title", plain_in_chat(title)},
        {"text", cut(text, 3500)},
        {"footer", cut("since " + format_rfc3339(alert.since) + ", incident " + alert.id, 300)}};
    return post_json(std::move(request),
                     {{"username", "stoker"}, {"attachments", Json::array({attachment})}});
  }

 protected:
  Delivery accept(const Answer& answer) const override {
    if (answer.body.starts_with("ok")) return Delivered{};
    return Retry{"answer " + std::to_string(answer.status) +
                 " without \"ok\": " + one_line(answer.body, 100)};
  }
};

}  // namespace

SinkKind mattermost_kind() {
  return {"mattermost", http_options(UrlIs::Secret), check_url_option<UrlIs::Secret>,
          make_http_sink<MattermostSink>, 1s};
}

}  // namespace stoker::alerts
