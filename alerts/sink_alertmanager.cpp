// Sink `alertmanager`: POSTs to /api/v2/alerts of a Prometheus Alertmanager, which groups, silences
// and routes by itself. It forgets what is not repeated: an open alert is sent again every minute
// and ends five minutes after the last time; a resolved one ends at once. Of several Alertmanagers
// each needs a sink of its own.
#include "alerts/http_sink.hpp"

namespace stoker::alerts {

namespace {

constexpr Duration kRefresh = 50s;  // open alerts are checked once a minute
constexpr Duration kLasts = 5min;   // Alertmanager's own resolve_timeout

class AlertmanagerSink : public HttpSink {
 public:
  explicit AlertmanagerSink(core::SinkPolicy policy) : HttpSink(std::move(policy)) {}

  Result<Request> request(const RenderedAlert& alert, WallTime now) const override {
    STOKER_TRY(request, request_to("/api/v2/alerts"));
    STOKER_TRY_STATUS(authorize(request, "authorization_file", ""));
    Json labels = alert.labels;
    labels["alertname"] = alert.kind;
    labels["incident"] = alert.id;
    Json annotations{
        {"summary", title_of(alert)}, {"description", alert.reason}, {"action", verdict_of(alert)}};
    if (!alert.command.empty()) annotations["command"] = alert.command;
    if (!alert.impact.empty()) annotations["impact"] = alert.impact;
    if (!alert.progress.empty()) annotations["progress"] = alert.progress;
    if (!alert.acknowledged_by.empty()) annotations["acknowledged_by"] = alert.acknowledged_by;
    if (!alert.instead_of.empty()) annotations["instead_of"] = alert.instead_of;
    Json one{{"labels", labels},
             {"annotations", annotations},
             {"startsAt", format_rfc3339(alert.since, true)},
             {"endsAt", format_rfc3339(alert.resolved ? alert.at : now + kLasts, true)}};
    if (!alert.page.empty()) one["generatorURL"] = alert.page;
    return post_json(std::move(request), Json::array({one}));
  }

 protected:
  Delivery accept(const Answer& answer) const override {
    if (answer.body.find('<') != std::string::npos)
      return Retry{"answer " + std::to_string(answer.status) +
                   " is a page, not Alertmanager: " + one_line(answer.body, 100)};
    return Delivered{};
  }
};

}  // namespace

SinkKind alertmanager_kind() {
  return {"alertmanager",
          http_options(UrlIs::Plain,
                       {{"authorization_file", "file with the value of the Authorization header"}}),
          check_url_option<UrlIs::Plain>,
          make_http_sink<AlertmanagerSink>,
          Duration::zero(),
          kRefresh,
          true};
}

}  // namespace stoker::alerts
