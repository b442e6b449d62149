// Sink: one way to reach people. A sink only describes what to send (a request) and judges the
// answer; it touches nothing itself, so that a dry run can show the request and the outbox can
// perform all requests on one thread (courier.hpp), retry them and fall back to other sinks. To add
// a kind: one file sink_<kind>.cpp, with sink_mattermost.cpp as a model of a webhook; its
// declaration at the end of this header and its name in the table of sinks.cpp; one of it in
// tests/alerts/one_of_each.hpp, with its limits, markup and answers in rendering_test.cpp
// (STOKER_REWRITE=1 test_alerts writes what it sends into tests/alerts/rendered); a receiver that
// checks its requests in tests/e2e/sink_receivers.py; its row in docs/operations.md.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "alerts/render.hpp"
#include "common/os/listener.hpp"

namespace stoker::alerts {

struct Delivered {
  std::string but = {};  // a reservation of the receiver ("one address was refused"); "" = none
};
struct Retry {
  std::string why;
  std::optional<Duration> after = {};  // as the receiver asked (Retry-After)
};
struct Refused {  // never tried again at this sink
  std::string why;
};
using Delivery = std::variant<Delivered, Retry, Refused>;

// `secrets` of a request never appear in a message: they are masked in answers and dry runs.
struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;
  std::string body;
  std::string method = "POST";
  Duration timeout = 10s;
  std::string authorities = {};  // certificates (PEM) to trust; "" = the system's
  std::vector<std::string> secrets = {};
  os::Guard guard = os::Guard::Anyone;  // of what goes in clear text
};
struct MailRequest {
  std::string url;        // smtp://host:port/own-name or smtps://…
  bool starttls = false;  // required: without it nothing is sent
  std::string from;
  std::vector<std::string> to;
  std::string user, password;  // "" = no authentication
  std::string message;         // headers and body, lines end in CRLF
  Duration timeout = 30s;
  std::string authorities = {};
  std::vector<std::string> secrets = {};
  os::Guard guard = os::Guard::Anyone;  // likewise
};
struct ExecRequest {
  std::vector<std::string> argv;
  std::string input;  // on standard input
  Duration timeout = 10s;
};
struct AppendRequest {
  std::string path, line;
  Duration timeout = 10s;  // its file system may not answer
};
using Request = std::variant<HttpRequest, MailRequest, ExecRequest, AppendRequest>;

struct Answer {
  long status = 0;    // of HTTP; last reply code of SMTP; exit status; 0: no answer
  std::string error;  // of the transport, when it failed
  std::string
      body;  // of HTTP: its first 1 KiB; of SMTP: its replies; of a command: its last output
  std::optional<Duration> retry_after = {};
};

class Sink {
 public:
  virtual ~Sink() = default;
  // An error (a secret that cannot be read) is tried again.
  virtual Result<Request> request(const RenderedAlert& alert, WallTime now) const = 0;
  // HTTP: 2xx is accept()ed; no answer, 3xx, 5xx and what the receiver's side can change (401, 403,
  // 404, 407, 408, 425, 429) are tried again; the rest is refused.
  virtual Delivery judge(const Answer& answer) const;

 protected:
  // Of a 2xx answer: some receivers say more in the body.
  virtual Delivery accept(const Answer& answer) const;
};

struct SinkOption {
  std::string name, meaning;
  bool required = false;
};
struct SinkKind {
  std::string kind;
  std::vector<SinkOption> options;
  // What single options cannot say: "either url or url_file". Null: nothing.
  Status (*check)(const core::SinkPolicy& policy) = nullptr;
  // `policy` passed check_sink.
  Result<std::unique_ptr<Sink>> (*make)(const core::SinkPolicy& policy) = nullptr;
  Duration pace = Duration::zero();     // at least this long between two deliveries
  Duration refresh = Duration::zero();  // the receiver forgets what is not repeated; zero = keeps
  // A program that routes, groups and holds back by itself: it gets everything at once.
  bool at_once = false;
  bool single = false;  // keeps alerts by their key: each has a message of its own
};

// All kinds that a configuration may name.
const std::vector<SinkKind>& known_sinks();
// Null: unknown.
const SinkKind* find_kind(const std::string& kind);
// Refuses an unknown kind (with the known ones), an unknown option, a missing one, and values that
// the kind cannot take.
Status check_sink(const core::SinkPolicy& policy);
// check_sink, then make.
Result<std::unique_ptr<Sink>> make_sink(const core::SinkPolicy& policy);

SinkKind pulse_kind();         // sink_pulse.cpp
SinkKind webhook_kind();       // sink_webhook.cpp
SinkKind email_kind();         // sink_email.cpp
SinkKind exec_kind();          // sink_exec.cpp
SinkKind alertmanager_kind();  // sink_alertmanager.cpp
SinkKind slack_kind();         // sink_slack.cpp
SinkKind mattermost_kind();    // sink_mattermost.cpp
SinkKind pagerduty_kind();     // sink_pagerduty.cpp
SinkKind ntfy_kind();          // sink_ntfy.cpp
SinkKind discord_kind();       // sink_discord.cpp
SinkKind teams_kind();         // sink_teams.cpp
SinkKind opsgenie_kind();      // sink_opsgenie.cpp
SinkKind matrix_kind();        // sink_matrix.cpp
SinkKind otlp_kind();          // sink_otlp.cpp

}  // namespace stoker::alerts
