// Test alerts.
#include "alerts/try_out.hpp"

#include <map>

#include "alerts/courier.hpp"
#include "alerts/secret.hpp"
#include "common/overloaded.hpp"

namespace stoker::alerts {

namespace {

constexpr Duration kPatience = 4s;  // the control socket answers within 5 s

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

// What each sink would send; empty: the test says why there is nothing.
std::vector<std::optional<Request>> requests_of(const std::vector<core::SinkPolicy>& sinks,
                                                std::vector<SinkTest>& tests,
                                                std::vector<std::unique_ptr<Sink>>& made) {
  const RenderedAlert alert = test_alert();
  std::vector<std::optional<Request>> requests(sinks.size());
  made.resize(sinks.size());
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    tests.push_back({sinks[i].name, sinks[i].kind, false, "", ""});
    auto sink = make_sink(sinks[i]);
    if (!sink) {
      tests[i].detail = sink.error().message();
      continue;
    }
    auto request = (*sink)->request(alert, wall_now());
    if (!request) {
      tests[i].detail = request.error().message();
      continue;
    }
    made[i] = std::move(*sink);
    requests[i] = std::move(*request);
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
  std::vector<std::unique_ptr<Sink>> made;
  const auto requests = requests_of(sinks, tests, made);
  for (std::size_t i = 0; i < sinks.size(); ++i)
    if (requests[i]) {
      tests[i].ok = true;
      tests[i].detail = "not sent";
      tests[i].shown = show(*requests[i]);
    }
  return tests;
}

std::vector<SinkTest> try_sinks(const std::vector<core::SinkPolicy>& sinks) {
  std::vector<SinkTest> tests;
  std::vector<std::unique_ptr<Sink>> made;
  auto requests = requests_of(sinks, tests, made);
  Courier courier;
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    if (!requests[i]) continue;
    shorten(*requests[i]);
    courier.start(i, *requests[i]);
  }
  while (courier.under_way() > 0)
    for (const auto& [id, answer] : courier.wait(1s)) judge(tests[id], made.at(id)->judge(answer));
  return tests;
}

}  // namespace stoker::alerts
