// Test alerts.
#include "alerts/try_out.hpp"

#include <map>
#include <memory>
#include <semaphore>

#include "alerts/courier.hpp"
#include "alerts/secret.hpp"
#include "common/lanes.hpp"
#include "common/overloaded.hpp"

namespace stoker::alerts {

namespace {

// The control socket answers within 5 s: a secret's file, then the receiver.
constexpr Duration kComposeLimit = 1s;
constexpr Duration kPatience = 3s;

RenderedAlert test_alert() {
  core::SendAlert alert;
  alert.id = "test/" + std::to_string(wall_now().time_since_epoch().count());
  alert.severity = core::Severity::Info;
  alert.alert_kind = "test";
  alert.summary = "a test alert of stoker: nothing has happened";
  alert.reason = "somebody ran `stoker alerts test`";
  return render(EffectKey(alert.id), alert, wall_now(), wall_now());
}

void judge(SinkTest& test, const Delivery& outcome) {
  std::visit(Overloaded{[&](const Delivered& delivered) {
                          test.ok = delivered.but.empty();
                          test.detail = test.ok ? "delivered" : "delivered, but " + delivered.but;
                        },
                        [&](const Retry& retry) { test.detail = retry.why; },
                        [&](const Refused& refused) { test.detail = refused.why; }},
             outcome);
}

struct Composed {
  std::shared_ptr<const Sink> sink;
  Request request;
};

Result<Composed> compose(const core::SinkPolicy& policy, const RenderedAlert& alert) {
  STOKER_TRY(sink, make_sink(policy));
  STOKER_TRY(request, sink->request(alert, wall_now()));
  return Composed{std::move(sink), std::move(request)};
}

// What each sink would send; empty: the test says why there is nothing. A secret may lie in a file
// system that does not answer: each on a thread of its own.
std::vector<std::optional<Composed>> requests_of(const std::vector<core::SinkPolicy>& sinks,
                                                 std::vector<SinkTest>& tests) {
  const RenderedAlert alert = test_alert();
  std::vector<std::optional<Composed>> requests(sinks.size());
  std::counting_semaphore<> news(0);
  Lanes<Composed> lanes([&news] { news.release(); });
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    tests.push_back({sinks[i].name, sinks[i].kind, false, "", ""});
    lanes.start(i, std::to_string(i) + " " + sinks[i].name, kComposeLimit,
                [policy = sinks[i], alert] { return compose(policy, alert); });
  }
  while (lanes.under_way() > 0) {
    (void)news.try_acquire_for(lanes.patience(kComposeLimit));
    for (auto& [i, composed] : lanes.collect())
      if (composed)
        requests[i] = std::move(*composed);
      else
        tests[i].detail = composed.error().message();
  }
  return requests;
}

void shorten(Request& request) {
  if (auto* http = std::get_if<HttpRequest>(&request))
    http->timeout = std::min(http->timeout, kPatience);
  else if (auto* mail = std::get_if<MailRequest>(&request))
    mail->timeout = std::min(mail->timeout, kPatience);
  else if (auto* command = std::get_if<ExecRequest>(&request))
    command->timeout = std::min(command->timeout, kPatience / 2);
  else if (auto* file = std::get_if<AppendRequest>(&request))
    file->timeout = std::min(file->timeout, kPatience);
}

std::string without_returns(std::string text) {
  std::erase(text, '\r');
  return text;
}

}  // namespace

std::string show(const Request& request) {
  return std::visit(
      Overloaded{[](const HttpRequest& r) {
                   std::string text = r.method + " " + r.url + "\n";
                   for (const std::string& header : r.headers) text += header + "\n";
                   return masked(text + "\n" + r.body + "\n", r.secrets);
                 },
                 [](const MailRequest& r) {
                   std::string text = "mail through " + r.url;
                   if (r.starttls) text += ", STARTTLS required";
                   if (!r.user.empty()) text += ", as user " + r.user + " with password ***";
                   text += "\nMAIL FROM:<" + r.from + ">\n";
                   for (const std::string& to : r.to) text += "RCPT TO:<" + to + ">\n";
                   return masked(text + "\n" + without_returns(r.message), r.secrets);
                 },
                 [](const ExecRequest& r) {
                   std::string text = "run";
                   for (const std::string& argument : r.argv) text += " " + argument;
                   return text + "\n\n" + r.input;
                 },
                 [](const AppendRequest& r) { return "append to " + r.path + "\n\n" + r.line; }},
      request);
}

std::vector<SinkTest> show_requests(const std::vector<core::SinkPolicy>& sinks) {
  std::vector<SinkTest> tests;
  const auto requests = requests_of(sinks, tests);
  for (std::size_t i = 0; i < sinks.size(); ++i)
    if (requests[i]) {
      tests[i].ok = true;
      tests[i].detail = "not sent";
      tests[i].shown = show(requests[i]->request);
    }
  return tests;
}

std::vector<SinkTest> try_sinks(const std::vector<core::SinkPolicy>& sinks) {
  std::vector<SinkTest> tests;
  auto requests = requests_of(sinks, tests);
  Courier courier;
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    if (!requests[i]) continue;
    shorten(requests[i]->request);
    courier.start(i, requests[i]->request);
  }
  while (courier.under_way() > 0)
    for (const auto& [id, answer] : courier.wait(1s))
      judge(tests[id], requests.at(id)->sink->judge(answer));
  return tests;
}

}  // namespace stoker::alerts
