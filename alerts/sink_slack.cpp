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

// Text that ends no block of code: a space of no width stands between backticks.
std::string in_code(const std::string& text) {
  std::string out;
  for (const char c : escaped(text)) {
    if (c == '`' && out.ends_with('`')) out += "\u200b";
    out += c;
  }
  return "```" + cut(out, 2800) + "```";
}

Json section(const std::string& markup) {
  return {{"type", "section"},
          {"text", {{"type", "mrkdwn"}, {"verbatim", true}, {"text", cut(markup, 2900)}}}};
}

// Text that others may have written in part: drawn as it is. A space of no width breaks what would
// be a mention, should a client read it all the same.
Json plain_section(const std::string& written) {
  std::string text;
  for (const char c : written) {
    if (text.ends_with('<') && (c == '!' || c == '@' || c == '#')) text += "\u200b";
    text += c;
  }
  return {{"type", "section"},
          {"text", {{"type", "plain_text"}, {"text", cut(text, 2900)}, {"emoji", false}}}};
}

class SlackSink : public HttpSink {
 public:
  explicit SlackSink(core::SinkPolicy policy) : HttpSink(std::move(policy)) {}

  Result<HttpRequest> compose(const RenderedAlert& alert, WallTime) const override {
    STOKER_TRY(request, request_to());
    const std::string title = title_of(alert);
    Json blocks = Json::array();
    blocks.push_back(
        {{"type", "header"},
         {"text",
          {{"type", "plain_text"}, {"text", cut_characters(title, 150)}, {"emoji", false}}}});
    blocks.push_back(plain_section(verdict_of(alert)));
    if (!alert.instead_of.empty())
      blocks.push_back(plain_section("Sent here because another sink failed: " + alert.instead_of));
    if (!alert.reason.empty()) blocks.push_back(plain_section(alert.reason));
    if (const std::string details = detail_lines(alert); !details.empty())
      blocks.push_back(plain_section(details));
    if (!alert.report.empty()) blocks.push_back(section(in_code(cut(alert.report, 2400))));
    blocks.push_back(
        {{"type", "context"},
         {"elements", Json::array({{{"type", "mrkdwn"},
                                    {"verbatim", true},
                                    {"text", escaped(cut("since " + format_rfc3339(alert.since) +
                                                             ", incident " + alert.id,
                                                         1000))}}})}});
    return with_json(std::move(request), {{"text", escaped(title + ". " + verdict_of(alert))},
                                          {"mrkdwn", false},
                                          {"blocks", blocks}});
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
