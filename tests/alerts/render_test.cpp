// Texts, routes and the table of sinks.
#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <sys/stat.h>

#include "alerts/route.hpp"
#include "alerts/sink.hpp"
#include "common/os/files.hpp"

using namespace stoker;
using namespace stoker::alerts;

namespace {

constexpr WallTime kMayDay{std::chrono::seconds(1651377371)};  // 2022-05-01 03:56:11 UTC

RenderedAlert alert_of(core::Severity severity, bool resolved = false) {
  core::SendAlert alert;
  alert.id = "tr11/node_fault/12";
  alert.severity = severity;
  alert.alert_kind = "node_fault";
  alert.summary = "n04 has failed";
  alert.reason = "Xid 79 on n04";
  alert.command = "stoker exclude n04 --reason 'Xid 79'";
  alert.resolved = resolved;
  alert.labels = {{"node", "n04"}};
  return render(EffectKey("tr11/12/0"), alert, kMayDay, kMayDay);
}

core::RoutePolicy rule(std::optional<core::Severity> severity,
                       std::map<std::string, std::string> match, std::vector<std::string> to,
                       Duration repeat) {
  return {severity, std::move(match), std::move(to), repeat, {}};
}

}  // namespace

TEST_CASE("render: a critical alert -> what, how grave, why, and the command") {
  const auto alert = alert_of(core::Severity::Critical);
  CHECK(text_of(alert) ==
        "CRITICAL tr11: n04 has failed. Act now: stoker exclude n04 --reason 'Xid 79'\n"
        "What stoker saw and did: Xid 79 on n04\n"
        "Next: stoker exclude n04 --reason 'Xid 79'\n      stoker why tr11\n"
        "      stoker ack tr11/node_fault/12\n"
        "Since: 2022-05-01T03:56:11Z\nIncident: tr11/node_fault/12\n");
  CHECK(pulse_line(alert) ==
        "[2022-05-01 03:56:11] ***ALERT: tr11: n04 has failed (critical). Xid 79 on n04 Run: "
        "stoker exclude n04 --reason 'Xid 79' ***\n");
  CHECK(alert.labels.at("run") == "tr11");
  CHECK(alert.labels.at("severity") == "critical");
}

TEST_CASE("render: what stoker handled -> said in the first line, the details below it") {
  core::SendAlert alert;
  alert.id = "tr11/hang/31";
  alert.alert_kind = "hang";
  alert.summary = "rank 3 on n02 stalled for 92s";
  alert.reason = "rank 3 on n02 stalled for 92s; n02 is excluded; restarting the ranks";
  alert.command = "stoker why tr11 --last 5";
  alert.impact = "no training since 03:55 UTC; 6 iterations to repeat";
  alert.progress = "recovering at iteration 146 of 500 (29.2 %), loss 2.2";
  alert.curve = "█▅▁ 4 to 2.2";
  const auto rendered =
      render(EffectKey("k"), alert, kMayDay, kMayDay, "https://login1.example.org:9470/");
  CHECK(verdict_of(rendered) == "No need to get up: n02 is excluded; restarting the ranks");
  CHECK(text_of(rendered) ==
        "WARNING tr11: rank 3 on n02 stalled for 92s. No need to get up: n02 is excluded; "
        "restarting the ranks\n"
        "Impact: no training since 03:55 UTC; 6 iterations to repeat\n"
        "Run: recovering at iteration 146 of 500 (29.2 %), loss 2.2\n"
        "Loss: █▅▁ 4 to 2.2\n"
        "Next: stoker why tr11 --last 5\n      stoker ack tr11/hang/31\n"
        "Page: https://login1.example.org:9470/#/run/tr11\n"
        "Since: 2022-05-01T03:56:11Z\nIncident: tr11/hang/31\n");
  alert.resolved = true;
  alert.command.clear();
  CHECK(text_of(render(EffectKey("k"), alert, kMayDay, kMayDay + 5min)).find("Next: ") ==
        std::string::npos);
  alert.id = "site/scheduler_blind/2";
  const auto site = render(EffectKey("k"), alert, kMayDay, kMayDay, "http://localhost:9470");
  CHECK(site.page == "http://localhost:9470/#/");
}

TEST_CASE("render: resolved and info -> a PULSE line; hostile text -> one line") {
  CHECK(pulse_line(alert_of(core::Severity::Critical, true))
            .starts_with("[2022-05-01 03:56:11] PULSE: tr11: resolved: n04 has failed"));
  CHECK(pulse_line(kMayDay, "a\nb\x1b[31m") == "[2022-05-01 03:56:11] PULSE: a b [31m\n");
  CHECK(one_line("häuser", 5) == "h…");
}

TEST_CASE("route: severity and labels -> every matching sink, the shortest repeat") {
  core::AlertPolicy policy;
  policy.routes = {rule(core::Severity::Critical, {}, {"mail", "pager"}, 1h),
                   rule(core::Severity::Warning, {}, {"mail"}, 4h),
                   rule({}, {{"kind", "node_fault"}, {"node", "n04"}}, {"ops"}, 2h),
                   rule({}, {{"node", "n05"}}, {"other"}, 2h)};
  const std::string group = R"([["run","tr11"]])";
  CHECK(route(alert_of(core::Severity::Critical), policy) ==
        std::vector<Routed>{{kPulseSink, kNoRepeat},
                            {"mail", 1h, {}, group},
                            {"ops", 2h, {}, group},
                            {"pager", 1h, {}, group}});
  CHECK(route(alert_of(core::Severity::Info), policy) ==
        std::vector<Routed>{{kPulseSink, kNoRepeat}, {"ops", 2h, {}, group}});
}

TEST_CASE("route: a weekly digest -> the sinks of alerts.digest alone, without a repeat") {
  core::AlertPolicy policy;
  policy.routes = {rule(core::Severity::Info, {}, {"pager"}, 1h)};
  policy.digest = core::DigestRule{1, 0, false, {"mail"}};
  RenderedAlert alert = alert_of(core::Severity::Info);
  alert.kind = kDigestKind;
  CHECK(route(alert, policy) == std::vector<Routed>{{kPulseSink, kNoRepeat}, {"mail", kNoRepeat}});
  policy.digest.reset();
  CHECK(route(alert, policy).size() == 1);
}

TEST_CASE("route: sinks without routes -> warnings and worse to all") {
  core::AlertPolicy policy;
  policy.sinks = {{"hook", "webhook", {}}};
  CHECK(route(alert_of(core::Severity::Warning), policy).size() == 2);
  CHECK(route(alert_of(core::Severity::Info), policy).size() == 1);
}

TEST_CASE("sinks: unknown kinds, options and values -> refused with what is known") {
  const auto why = [](const core::SinkPolicy& policy) {
    const auto status = check_sink(policy);
    return status ? std::string() : status.error().message();
  };
  const std::string pigeon = why({"a", "pigeon", {}});
  CHECK(pigeon.starts_with(
      "alerts.sinks.a: unknown kind of sink \"pigeon\"; known: pulse, webhook, email, exec, "));
  for (const SinkKind& kind : known_sinks()) CHECK(pigeon.find(kind.kind) != std::string::npos);
  CHECK(why({"a", "webhook", {{"urll", "http://x"}}})
            .starts_with("alerts.sinks.a: unknown option \"urll\" of a webhook sink; known: url"));
  CHECK(why({"a", "webhook", {}}) == "alerts.sinks.a: needs either url or url_file");
  CHECK(why({"a", "webhook", {{"url", "file:///etc/passwd"}}}) != "");
  CHECK(why({"a", "webhook", {{"url", "http://x"}, {"timeout", "1h"}}}) != "");
  CHECK(why({"a", "webhook", {{"url_file", "/x"}, {"timeout", "3s"}}}).empty());
  CHECK(why({"a", "pulse", {}}) ==
        "alerts.sinks.a: \"path\" is missing: absolute path of the file to append to");
  CHECK(why({"a", "pulse", {{"path", "relative"}}}) != "");
}

TEST_CASE("webhook: secrets from files -> read at each delivery; a missing one is tried again") {
  std::string folder = (std::filesystem::temp_directory_path() / "stoker-sink-XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::string url = folder + "/url";
  const std::string authorization = folder + "/authorization";
  auto sink =
      make_sink({"hook", "webhook", {{"url_file", url}, {"authorization_file", authorization}}});
  REQUIRE(sink.has_value());
  const auto ask = [&] { return (*sink)->request(alert_of(core::Severity::Critical), kMayDay); };
  CHECK_FALSE(ask().has_value());
  const auto keep = [](const std::string& path, const std::string& text) {
    REQUIRE(os::replace_file(path, text, os::Durability::Cached, 0600));
  };
  keep(url, "https://example.org/secret\n");
  keep(authorization, "Bearer abc\n");
  auto request = ask();
  REQUIRE(request.has_value());
  const auto& http = std::get<HttpRequest>(*request);
  CHECK(http.url == "https://example.org/secret");
  CHECK(std::count(http.headers.begin(), http.headers.end(), "Authorization: Bearer abc") == 1);
  keep(authorization, "Bearer abc\r\nX-Evil: 1\n");
  CHECK_FALSE(ask().has_value());
  keep(authorization, "Bearer abc\n");
  REQUIRE(::chmod(authorization.c_str(), 0644) == 0);
  REQUIRE_FALSE((request = ask()).has_value());
  CHECK(request.error().message().find("has mode 0644; chmod 600") != std::string::npos);
  CHECK(request.error().message().find("abc") == std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST_CASE("render: a report -> after the text, its lines made harmless and counted") {
  core::SendAlert alert;
  alert.id = "tr11/node_convicted/12";
  alert.summary = "n04 is excluded";
  alert.report = "Node n04\nline \x1b[2J two\n";
  const RenderedAlert rendered = render(EffectKey("tr11/12/0"), alert, kMayDay, kMayDay);
  CHECK(text_of(rendered).find("\n\nNode n04\nline  [2J two\n") != std::string::npos);
  for (int i = 0; i < 500; ++i) alert.report += "x\n";
  const std::string report = render(EffectKey("tr11/12/0"), alert, kMayDay, kMayDay).report;
  CHECK(std::count(report.begin(), report.end(), '\n') == 40);
}
