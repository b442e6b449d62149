// Sink `slack`: an incoming webhook. Limits: a header block has 150 characters, a section 3000, one
// message a second. `&`, `<` and `>` are escaped and plain text is left alone (verbatim), so that
// no text can mention a channel.
#include "alerts/http_sink.hpp"

namespace stoker::alerts {

namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

Json section(const std::string& text) {
  return {{"type", "section"},
          {"text", {{"type", "mrkdwn"}, {"verbatim", true}, {"text", cut(text, 2900)}}}};
}

class SlackSink : public HttpSink {
 public:
  explicit SlackSink(core::SinkPolicy policy) : HttpSink(std::move(policy)) {}

  Result<Request> request(const RenderedAlert& alert, WallTime) const override {
    STOKER_TRY(request, request_to());
    const std::string title = title_of(alert);
    Json blocks = Json::array();
    blocks.push_back(
        {{"type", "header"},
         {"text",
          {{"type", "plain_text"}, {"text", cut_characters(title, 150)}, {"emoji", false}}}});
    blocks.push_back(section("*" + escaped(verdict_of(alert)) + "*"));
    if (!alert.instead_of.empty())
      blocks.push_back(
          section("Sent here because another sink failed: " + escaped(alert.instead_of)));
    if (!alert.reason.empty()) blocks.push_back(section(escaped(alert.reason)));
    if (const std::string details = detail_lines(alert); !details.empty())
      blocks.push_back(section(escaped(details)));
    if (!alert.report.empty())
      blocks.push_back(section("```" + escaped(cut(alert.report, 2400)) + "```"));
    blocks.push_back(
        {{"type", "context"},
         {"elements", Json::array({{{"type", "mrkdwn"},
                                    {"verbatim", true},
                                    {"text", escaped(cut("since " + format_rfc3339(alert.since) +
                                                             ", incident " + alert.id,
                                                         1000))}}})}});
    return post_json(std::move(request),
                     {{"text", escaped(title + ". " + verdict_of(alert))}, {"blocks", blocks}});
  }

 protected:
  Delivery accept(const Answer& answer) const override {
    if (answer.body.starts_with("ok")) return Delivered{};
    return Retry{"answer " + std::to_string(answer.status) +
                 " without \"ok\": " + one_line(answer.body, 100)};
  }
};

}  // namespace

SinkKind slack_kind() {
  return {"slack", http_options(UrlIs::Secret), check_url_option<UrlIs::Secret>,
          make_http_sink<SlackSink>, 1s};
}

}  // namespace stoker::alerts
