// Sink `discord`: a webhook with one embed; `?wait=true` makes Discord answer what it made of it.
// Limits: title 256, description 4096 characters, five messages in two seconds. No one is
// mentioned.
#include "alerts/http_sink.hpp"

namespace stoker::alerts {

namespace {

class DiscordSink : public HttpSink {
 public:
  explicit DiscordSink(core::SinkPolicy policy) : HttpSink(std::move(policy)) {}

  Result<HttpRequest> compose(const RenderedAlert& alert, WallTime) const override {
    STOKER_TRY(request, request_to());
    request.url += request.url.find('?') == std::string::npos ? "?wait=true" : "&wait=true";
    const bool red = alert.severity == core::Severity::Critical;
    const std::string title = plain_in_chat(title_of(alert));
    const Json embed{{"title", cut_characters(title, 256)},
                     {"description", cut(plain_in_chat(text_of(alert)), 4000)},
                     {"color", alert.resolved ? 0x2e7d32
                               : red          ? 0xc62828
                                              : 0xb26a00},
                     {"timestamp", format_rfc3339(alert.at, true)}};
    return with_json(std::move(request), {{"username", "stoker"},
                                          {"content", title},
                                          {"embeds", Json::array({embed})},
                                          {"allowed_mentions", {{"parse", Json::array()}}}});
  }

 protected:
  Delivery accept(const Answer& answer) const override {
    if (answer.status == 204 || answer.body.find("\"id\"") != std::string::npos) return Delivered{};
    return Retry{"answer " + std::to_string(answer.status) +
                 " without an id: " + one_line(answer.body, 100)};
  }
};

}  // namespace

SinkKind discord_kind() {
  return {"discord", http_options(UrlIs::Secret), check_url_option<UrlIs::Secret>,
          make_http_sink<DiscordSink>, 500ms};
}

}  // namespace stoker::alerts
