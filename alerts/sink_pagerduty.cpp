// Sink `pagerduty`: Events API v2. One incident is one dedup_key: trigger, acknowledge, resolve.
// Limits: summary 1024, dedup_key 255, the event 512 KB.
#include "alerts/http_sink.hpp"
#include "alerts/secret.hpp"
#include "common/hash.hpp"
#include "common/os/files.hpp"

namespace stoker::alerts {

namespace {

constexpr const char* kService = "https://events.pagerduty.com/v2/enqueue";

std::string dedup_key(const std::string& id) {
  constexpr std::size_t kLongest = 255;
  return id.size() <= kLongest ? id : "stoker-" + hex64(xxh3_64(id));
}

const char* action_of(const RenderedAlert& alert) {
  if (alert.resolved) return "resolve";
  return alert.acknowledged_by.empty() ? "trigger" : "acknowledge";
}

class PagerdutySink : public HttpSink {
 public:
  explicit PagerdutySink(core::SinkPolicy policy) : HttpSink(std::move(policy), kService) {}

  Result<Request> request(const RenderedAlert& alert, WallTime) const override {
    STOKER_TRY(request, request_to());
    STOKER_TRY(key, read_secret(option("routing_key_file")));
    request.secrets.push_back(key);
    Json event{{"routing_key", key},
               {"event_action", action_of(alert)},
               {"dedup_key", dedup_key(alert.id)}};
    if (status_of(alert) == "firing") {
      Json details{{"verdict", verdict_of(alert)},
                   {"reason", alert.reason},
                   {"since", format_rfc3339(alert.since)}};
      if (!alert.command.empty()) details["command"] = alert.command;
      if (!alert.impact.empty()) details["impact"] = alert.impact;
      if (!alert.progress.empty()) details["progress"] = alert.progress;
      if (!alert.report.empty()) details["report"] = cut(alert.report, 20000);
      if (!alert.instead_of.empty()) details["instead_of"] = alert.instead_of;
      event["payload"] = {{"summary", cut(title_of(alert) + ". " + verdict_of(alert), 1024)},
                          {"source", os::host_name()},
                          {"severity", std::string(name_of(alert.severity))},
                          {"timestamp", format_rfc3339(alert.at, true)},
                          {"component", alert.run},
                          {"group", "stoker"},
                          {"class", alert.kind},
                          {"custom_details", details}};
      event["client"] = "stoker";
      if (!alert.page.empty()) {
        event["client_url"] = alert.page;
        event["links"] = Json::array({{{"href", alert.page}, {"text", "the run's page"}}});
      }
    }
    return post_json(std::move(request), event);
  }

 protected:
  Delivery accept(const Answer& answer) const override {
    if (answer_field(answer, "status") == "success") return Delivered{};
    return Retry{"answer " + std::to_string(answer.status) +
                 " without status \"success\": " + one_line(answer.body, 100)};
  }
};

}  // namespace

SinkKind pagerduty_kind() {
  return {"pagerduty",
          http_options(UrlIs::Known,
                       {{"routing_key_file", "file that holds the integration key alone", true}}),
          check_url_option<UrlIs::Known>,
          make_http_sink<PagerdutySink>,
          Duration::zero(),
          Duration::zero(),
          false,
          true};
}

}  // namespace stoker::alerts
