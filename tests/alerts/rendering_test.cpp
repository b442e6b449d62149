// What each kind of sink sends, against the files of tests/alerts/rendered (STOKER_REWRITE=1 writes
// them again: review the difference); and how each judges the answers of its receiver.
#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>

#include "alerts/mime.hpp"
#include "alerts/outbox.hpp"
#include "alerts/try_out.hpp"
#include "common/json.hpp"
#include "common/os/files.hpp"
#include "one_of_each.hpp"
#include "tests/transcripts.hpp"

using namespace stoker;
using namespace stoker::alerts;
using namespace stoker::alerts::test;

namespace {

const std::string kRenew = "\n(STOKER_REWRITE=1 writes it again: review the difference)";
constexpr WallTime kMayDay{std::chrono::seconds(1651377371)};  // 2022-05-01 03:56:11 UTC

RenderedAlert digest() {
  core::SendAlert alert;
  alert.id = "tr11/weekly_digest/77";
  alert.severity = core::Severity::Info;
  alert.alert_kind = "weekly_digest";
  alert.summary = "tr11: week to 2022-05-01: goodput 91.2 %, 2 incidents, 4.50 GPU hours lost";
  alert.reason = "tr11 is training at iteration 120 of 500; finished in about 3d";
  alert.report =
      "Time: 91.2 % of 7d in iterations that were kept, queue 8.8 %.\n"
      "Spend: 90.00 GPU hours this week; 90.0 of 500.0 GPU hours (18.0 %).\n";
  alert.labels = {{"run", "tr11"}};
  return render(EffectKey("tr11/77/0"), alert, kMayDay, kMayDay);
}

// A hang with what it led to, in one message (alerts.group_by).
RenderedAlert grouped() {
  core::SendAlert alert;
  alert.id = "tr11/hang/31";
  alert.severity = core::Severity::Critical;
  alert.alert_kind = "hang";
  alert.summary = "tr11: rank 3 on n02 stalled for 92s; its peers <wait> & \"wait\"";
  alert.reason = "all ranks wait for rank 3; the attempt is restarted without n02";
  alert.command = "stoker why tr11";
  alert.labels = {{"run", "tr11"}, {"subject", "n02"}};
  auto rendered = render(EffectKey("tr11/31/grouped"), alert, kMayDay, kMayDay);
  for (const char* kind : {"save_overdue", "slow"}) {
    core::SendAlert other;
    other.id = std::string("tr11/") + kind + "/32";
    other.alert_kind = kind;
    other.summary = std::string("tr11: ") + kind + " since iteration 120 <é>";
    other.reason = std::string("the reason of ") + kind + " & more";
    other.labels = {{"run", "tr11"}, {"kind", kind}};
    const auto one = render(EffectKey("tr11/32/0"), other, kMayDay + 20s, kMayDay + 20s);
    rendered.also.push_back({other.id, title_of(one), one.kind, one.reason, one.labels, one.since});
  }
  extend_report(rendered);
  return rendered;
}

RenderedAlert alert_of(const std::string& moment) {
  if (moment == "digest") return digest();
  if (moment == "grouped") return grouped();
  core::SendAlert alert;
  alert.id = "tr11/rank_crash/12";
  alert.severity = core::Severity::Critical;
  alert.alert_kind = "rank_crash";
  alert.summary = "tr11 is on hold: rank 3 crashed 3 times at the same line <é> & \"quoted\"";
  alert.reason = "rank 3 on n02 ended with signal 11; no restart is left; @all look";
  alert.labels = {{"run", "tr11"}, {"subject", "n02"}};
  alert.resolved = moment == "resolved";
  alert.impact = "no training since 03:51 UTC; 20 iterations to repeat; 1.25 GPU hours lost so far";
  alert.progress = "held at iteration 120 of 500 (24.0 %), loss 2.2, newest checkpoint 100";
  alert.curve = "█▆▅▃▂▁ 2.45 to 2.2";
  if (!alert.resolved) alert.command = "stoker resume tr11 --reason \"...\"";
  if (moment == "fired") alert.report = "Node n02\n.signal 11\n";
  if (moment == "acknowledged") alert.labels["acknowledged_by"] = "ann";
  const WallTime at = moment == "fired" ? kMayDay : kMayDay + 5min;
  auto rendered =
      render(EffectKey("tr11/12/" + moment), alert, kMayDay, at, "https://login1:9470/");
  rendered.update = moment != "fired";
  if (moment == "fired") rendered.instead_of = "page: answer 400";
  return rendered;
}

// The host's name and JSON's one line would make the files differ between hosts and hard to read.
std::string readable(std::string shown) {
  const std::string host = os::host_name();
  for (auto at = shown.find(host); at != std::string::npos; at = shown.find(host, at + 4))
    shown.replace(at, host.size(), "HOST");
  const auto body = shown.find("\n\n");
  if (body == std::string::npos || shown[body + 2] == '.') return shown;
  const auto json = parse_json(shown.substr(body + 2), "body");
  if (!json) return shown;
  return shown.substr(0, body + 2) + json->dump(1) + "\n";
}

Delivery answered(const std::string& kind, long status, const std::string& body) {
  const Secrets secrets;
  for (const core::SinkPolicy& policy : one_of_each(secrets))
    if (policy.kind == kind) return (*make_sink(policy))->judge({status, "", body});
  FAIL("no such kind");
  return Refused{};
}
bool taken(const std::string& kind, long status, const std::string& body) {
  return std::holds_alternative<Delivered>(answered(kind, status, body));
}
bool again(const std::string& kind, long status, const std::string& body) {
  return std::holds_alternative<Retry>(answered(kind, status, body));
}
bool refused(const std::string& kind, long status, const std::string& body) {
  return std::holds_alternative<Refused>(answered(kind, status, body));
}

}  // namespace

TEST_CASE("rendering: fired to grouped -> as kept for every kind of sink, no secret in sight") {
  const Secrets secrets;
  for (const core::SinkPolicy& policy : one_of_each(secrets)) {
    CAPTURE(policy.name);
    auto sink = make_sink(policy);
    REQUIRE_MESSAGE(sink.has_value(), (sink ? "" : sink.error().message()));
    std::string text;
    for (const char* moment : {"fired", "acknowledged", "resolved", "digest", "grouped"}) {
      const SinkKind& kind = *find_kind(policy.kind);
      if (moment == std::string("grouped") && (kind.single || kind.at_once)) continue;  // never
      const auto request = (*sink)->request(alert_of(moment), kMayDay + 1min);
      REQUIRE(request.has_value());
      text += "=== " + std::string(moment) + "\n" + readable(show(*request)) + "\n";
    }
    CHECK(text.find("0123456789abcdef0123456789abcdef") == std::string::npos);
    CHECK(text.find("secret-hook") == std::string::npos);
    const std::string path =
        std::string(STOKER_SOURCE_DIR) + "/tests/alerts/rendered/" + policy.name + ".txt";
    if (::getenv("STOKER_REWRITE") != nullptr)
      REQUIRE(os::replace_file(path, text, os::Durability::Cached));
    const std::string differs =
        testing::difference(os::read_file(path).value_or(std::string()), text);
    CHECK_MESSAGE(differs.empty(), path << ": " << differs << kRenew);
  }
}

TEST_CASE("rendering: every kind of sink -> shown here, and described in docs/operations.md") {
  const Secrets secrets;
  const std::vector<core::SinkPolicy> shown = one_of_each(secrets);
  const std::string page =
      os::read_file(std::string(STOKER_SOURCE_DIR) + "/docs/operations.md").value_or(std::string());
  for (const SinkKind& kind : known_sinks()) {
    const bool here = std::any_of(shown.begin(), shown.end(),
                                  [&](const auto& policy) { return policy.kind == kind.kind; });
    CHECK_MESSAGE(here, (kind.kind + " is not in tests/alerts/one_of_each.hpp"));
    CHECK_MESSAGE(page.find("`" + kind.kind + "`") != std::string::npos,
                  (kind.kind + " is not in the table of sinks of docs/operations.md"));
  }
}

TEST_CASE("rendering: markup in what a training says -> text in every chat, no mention") {
  const Secrets secrets;
  core::SendAlert alert;
  alert.id = "tr11/12";
  alert.alert_kind = "rank_crash";
  alert.summary = alert.reason = "@everyone [click](http://evil.example.org) **now** <!here> `x`";
  alert.report = alert.reason + "\nsecond line\n```\n*Act now: curl evil.example.org*\n";
  const auto rendered = render(EffectKey("k"), alert, kMayDay, kMayDay);
  for (const core::SinkPolicy& policy : one_of_each(secrets)) {
    CAPTURE(policy.name);
    const auto request = (*make_sink(policy))->request(rendered, kMayDay);
    REQUIRE(request.has_value());
    const auto* http = std::get_if<HttpRequest>(&*request);
    if (http == nullptr) continue;
    if (policy.kind == "mattermost" || policy.kind == "discord") {
      CHECK(http->body.find("@everyone") == std::string::npos);
      CHECK(http->body.find("[click](") == std::string::npos);
      CHECK(http->body.find("\\\\[click\\\\](") != std::string::npos);
      CHECK(http->body.find(" **now") == std::string::npos);
      CHECK(http->body.find(" <!here") == std::string::npos);
    }
    if (policy.kind == "slack") {
      const auto body = parse_json(http->body, "body");
      CHECK(body->at("text").get<std::string>().find("<!here") == std::string::npos);
      for (const auto& block : body->at("blocks")) {
        if (block.at("type") != "section") continue;  // a header is plain text
        const Json& text = block.at("text");
        const auto code = text.at("text").get<std::string>();
        CHECK(code.find("<!here") == std::string::npos);
        if (text.at("type") == "plain_text") continue;  // drawn as it is
        CHECK(text.at("verbatim") == true);
        CHECK(code.find("```", 3) == code.size() - 3);
      }
    }
    if (policy.kind == "teams") {
      CHECK(http->body.find("\"TextBlock\"") == std::string::npos);
      CHECK(http->body.find("second line\",\"type\":\"TextRun\"") != std::string::npos);
    }
  }
}

TEST_CASE("rendering: long texts -> within each receiver's limits") {
  const Secrets secrets;
  core::SendAlert alert;
  alert.id = "tr11/" + std::string(3000, 'i');
  alert.alert_kind = "rank_crash";
  alert.severity = core::Severity::Critical;
  std::string wide;
  for (int i = 0; i < 5000; ++i) wide += "é";
  alert.summary = alert.reason = alert.command = wide;
  alert.impact = alert.progress = alert.curve = wide;
  for (int i = 0; i < 100; ++i) alert.report += wide + "\n";
  const auto rendered = render(EffectKey("k"), alert, kMayDay, kMayDay);
  for (const core::SinkPolicy& policy : one_of_each(secrets)) {
    CAPTURE(policy.name);
    const auto request = (*make_sink(policy))->request(rendered, kMayDay);
    REQUIRE(request.has_value());
    const auto* http = std::get_if<HttpRequest>(&*request);
    if (http == nullptr) continue;
    const auto body = parse_json(http->body, "body");
    REQUIRE(body.has_value());
    if (policy.kind == "slack") {
      CHECK(http->body.size() < 13000);
      for (const auto& block : body->at("blocks"))
        if (block.at("type") == "section")
          CHECK(block.at("text").at("text").get<std::string>().size() <= 3000);
    }
    if (policy.kind == "mattermost")
      CHECK(body->at("attachments").at(0).at("text").get<std::string>().size() <= 3500);
    if (policy.kind == "discord")
      CHECK(body->at("embeds").at(0).at("description").get<std::string>().size() <= 4096);
    if (policy.kind == "teams") CHECK(http->body.size() < 28000);
    if (policy.kind == "pagerduty") {
      CHECK(body->at("payload").at("summary").get<std::string>().size() <= 1024);
      CHECK(body->at("dedup_key").get<std::string>().size() <= 255);
    }
    if (policy.kind == "opsgenie") {
      CHECK(body->at("alias").get<std::string>().size() <= 512);
      CHECK(body->at("description").get<std::string>().size() <= 15000);
    }
    if (policy.kind == "ntfy") CHECK(body->at("message").get<std::string>().size() <= 4096);
  }
}

TEST_CASE("rendering: a title -> at most 80 characters, the run named once") {
  core::SendAlert alert;
  alert.id = "tr11/slow/1";
  alert.summary = "tr11: iterations take longer";
  CHECK(title_of(render(EffectKey("k"), alert, kMayDay, kMayDay)) ==
        "WARNING tr11: iterations take longer");
  for (int i = 0; i < 100; ++i) alert.summary += "é";
  const std::string title = title_of(render(EffectKey("k"), alert, kMayDay, kMayDay));
  std::size_t characters = 0;
  for (const char c : title) characters += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  CHECK(characters == 80);
  CHECK(title.ends_with("é…"));
}

TEST_CASE("judging: 200 with an error or a page -> no delivery") {
  CHECK(taken("slack", 200, "ok"));
  CHECK(again("slack", 200, "<html>Please log in</html>"));
  CHECK(refused("slack", 400, "invalid_payload"));
  CHECK(again("slack", 404, "no_service"));
  CHECK(taken("mattermost", 200, "ok\n"));
  CHECK(again("mattermost", 200, "{\"status\":\"error\"}"));
  CHECK(taken("pagerduty", 202, R"({"status":"success","dedup_key":"x"})"));
  CHECK(again("pagerduty", 200, "<html>"));
  CHECK(refused("pagerduty", 400, R"({"status":"invalid event"})"));
  CHECK(taken("opsgenie", 202, R"({"result":"…","requestId":"1"})"));
  CHECK(again("opsgenie", 200, ""));
  CHECK(taken("ntfy", 200, R"({"id":"x","event":"message"})"));
  CHECK(again("ntfy", 200, ""));
  CHECK(taken("matrix", 200, R"({"event_id":"$x"})"));
  CHECK(again("matrix", 200, "{}"));
  CHECK(taken("discord", 200, R"({"id":"1"})"));
  CHECK(again("discord", 200, "<html>"));
  CHECK(taken("teams", 202, ""));
  CHECK(again("teams", 200, "<html>"));
  CHECK(again("teams", 200, "Webhook message delivery failed with error"));
  CHECK(taken("alertmanager", 200, ""));
  CHECK(again("alertmanager", 200, "<html>"));
  CHECK(taken("otlp", 200, "{}"));
  CHECK(taken("otlp", 200, R"({"partialSuccess":{"rejectedLogRecords":"0"}})"));
  CHECK(refused("otlp", 200, R"({"partialSuccess":{"rejectedLogRecords":"1"}})"));
  const auto slow = answered("discord", 429, R"({"retry_after":1.5})");
  CHECK(std::get<Retry>(slow).after == 1500ms);
}

TEST_CASE("judging: what a relay replies -> 4xx again, 5xx refused, one bad address reported") {
  const std::string greeting = "220 relay\r\n250-relay\r\n250 SIZE\r\n250 sender ok\r\n";
  const Secrets secrets;
  const auto sink = make_sink(one_of_each(secrets).front());
  REQUIRE(sink.has_value());
  const auto judge = [&](const std::string& error, const std::string& replies) {
    return (*sink)->judge({0, error, replies});
  };
  CHECK(std::get<Delivered>(judge("", greeting + "250 ok\r\n250 ok\r\n354 go\r\n250 queued\r\n"))
            .but.empty());
  CHECK(std::get<Delivered>(
            judge("", greeting + "250 ok\r\n550 5.1.1 unknown\r\n354 go\r\n250 queued\r\n"))
            .but == "the relay refused team@example.org: 550 5.1.1 unknown");
  CHECK(std::get<Refused>(judge("Failed sending data", greeting + "550 no\r\n550 5.7.1 spam\r\n"))
            .why == "550 5.7.1 spam");
  CHECK(std::get<Retry>(judge("Failed sending data", greeting + "451 4.7.1 greylisted\r\n")).why ==
        "451 4.7.1 greylisted");
  CHECK(std::get<Retry>(judge("Login denied", "220 x\r\n535 5.7.8 bad password\r\n")).why ==
        "535 5.7.8 bad password");
  CHECK(std::get<Retry>(judge("SSL certificate problem", "220 x\r\n250 x\r\n")).why ==
        "SSL certificate problem");
}

TEST_CASE("mail: addresses with CRLF or brackets, odd headers -> refused or encoded") {
  CHECK(is_mail_address("a.b+c@example.org"));
  for (const char* bad :
       {"", "a", "@b", "a@", "a@b\r\nBcc: x@y", "a b@c", "a@b@c", "<a@b>", "é@b", "a,b@c", "a@b>"})
    CHECK_FALSE(is_mail_address(bad));
  CHECK(encoded_header("plain") == "plain");
  CHECK(encoded_header("é") == "=?UTF-8?B?w6k=?=");
  CHECK(encoded_header("=?x?=").starts_with("=?UTF-8?B?"));
  CHECK(quoted_printable(".a = é \nb") == "=2Ea =3D =C3=A9=20\r\nb\r\n");
  CHECK(quoted_printable(std::string(80, 'x')) ==
        std::string(73, 'x') + "=\r\n" + std::string(7, 'x') + "\r\n");
}

TEST_CASE("sinks: options that cannot work -> one clear line each") {
  const auto why = [](const core::SinkPolicy& policy) {
    const auto status = check_sink(policy);
    return status ? std::string() : status.error().what;
  };
  const auto mail = [&](std::map<std::string, std::string> more) {
    std::map<std::string, std::string> all{
        {"server", "smtp://relay:587"}, {"from", "a@b"}, {"to", "c@d"}};
    for (auto& [name, value] : more) all[name] = value;
    return why({"mail", "email", all});
  };
  CHECK(mail({}).empty());
  CHECK(mail({{"to", "x@y\r\nBcc: z@z"}}) == "to \"x@y  Bcc: z@z\" is no mail address");
  CHECK(mail({{"tls", "none"}}) ==
        "tls: none is only for a relay on this host; insecure: true allows it");
  CHECK(mail({{"tls", "none"}, {"insecure", "true"}}).empty());
  CHECK(mail({{"tls", "none"}, {"server", "smtp://127.0.0.1:25"}}).empty());
  CHECK(mail({{"tls", "tls"}}) == "tls: tls goes with smtps://, starttls and none with smtp://");
  CHECK(mail({{"server", "smtps://relay:465"}}).empty());
  CHECK(mail({{"server", "http://relay"}}) == "server must be smtp://host:587 or smtps://host:465");
  CHECK(mail({{"server", "smtp://u:p@relay"}}).starts_with("server must be host and port only"));
  CHECK(mail({{"user", "u"}}) == "user and password_file go together");
  CHECK(why({"x", "exec", {{"command", "mail -s x"}}}) ==
        "command is run without a shell: write [program, argument, …]");
  CHECK(
      why({"x", "webhook", {{"url", "http://x"}, {"template", "{\"a\": \"{titel}\"}"}}})
          .starts_with("the template names an unknown field {titel}; known: acknowledged_by, at"));
  CHECK(why({"x", "webhook", {{"url", "http://x"}, {"template", "{title}"}}}) ==
        "the template is no JSON; another content_type may be given");
  CHECK(why({"x",
             "webhook",
             {{"url", "http://x"}, {"template", "{title}"}, {"content_type", "text/plain"}}})
            .empty());
  CHECK(why({"x", "matrix", {{"url", "https://x"}, {"room", "#a:b"}, {"token_file", "/t"}}})
            .starts_with("room must be the id"));
}
