// stoker alerts: the open alerts of the site and of all runs; `stoker alerts test` sends one
// through every sink, `stoker alerts digest` a digest of the week.
#include <memory>

#include "cli/acting.hpp"
#include "cli/commands/all.hpp"
#include "cli/doctor/failing_sinks.hpp"
#include "cli/read/held_alerts.hpp"
#include "cli/read/published.hpp"
#include "cli/show/documents.hpp"

namespace stoker::cli {
namespace {

struct AlertsOptions {
  std::string run;
  bool json = false;
};

void show(const Console& console, const std::string& run, const wire::StatusAlert& a,
          const std::vector<wire::HeldAlert>& held) {
  const Ink ink = a.severity == "critical" ? Ink::Red : Ink::Yellow;
  console.line(console.paint(ink, printable(a.severity)) + "  " +
               (run.empty() ? "the site" : printable(run)) + "  " + printable(a.summary) +
               "  since " + printable(a.since) + (a.acknowledged ? "  (acknowledged)" : ""));
  if (!a.reason.empty()) console.line("    why " + printable(a.reason));
  if (!a.command.empty()) console.line("    do  " + printable(a.command));
  for (const wire::HeldAlert& h : held) console.line("    " + printable(held_text(h)));
  if (!a.acknowledged) console.line("    ack stoker ack " + printable(a.id));
}

int alerts(Context& context, const AlertsOptions& options) {
  const Console& console = context.console;
  const auto site = published_site(context.state);
  if (!site) return console.say(site.error().message()), kFailed;
  const auto held = held_alerts(context.state);
  if (!held) return console.say(held.error().message()), kFailed;
  const Reach reach = note_daemon(context);
  Json all = Json::array();
  bool good = true;
  const auto add = [&](const std::string& run, const wire::StatusAlert& alert, bool stale) {
    const AlertPlace place{run, stale, held_of(*held, alert.id)};
    Json entry(alert);
    entry.update(Json(place));
    all.push_back(entry);
    if (!options.json) show(console, run, alert, place.held);
  };
  for (const wire::StatusAlert& alert : site->alerts)
    add("", alert, reach != Reach::Answered && reach != Reach::Barred);
  for (const wire::SiteRun& run : site->runs) {
    const auto status = read_status(run, reach);
    if (!status) {
      console.say(status.error().message());
      good = false;
      continue;
    }
    for (const wire::StatusAlert& alert : status->alerts) add(status->run, alert, status->stale);
  }
  if (options.json)
    console.line(dump_json(all));
  else if (all.empty())
    console.line("no open alerts");
  const auto sinks = failing_sinks(context.state);
  if (!sinks) return console.say(sinks.error().message()), kFailed;
  for (const wire::FailingSink& sink : *sinks) console.say(failing_line(sink));
  return good ? kDone : kFailed;
}

std::string text_of(const Json& sink, const char* name) {
  const auto found = sink.find(name);
  return found == sink.end() || !found->is_string() ? "" : found->get<std::string>();
}

// Each sink's request, secrets masked by the daemon.
int show_requests(const Console& console, const Answer& answer) {
  if (!answer.response.data.contains("sinks"))
    return console.say(printable(answer.response.message)), kFailed;
  for (const Json& sink : answer.response.data["sinks"]) {
    if (!sink.is_object()) continue;
    console.line("--- " + printable(text_of(sink, "sink")) + " (" +
                 printable(text_of(sink, "kind")) + "): would send, was not sent");
    const std::string request = text_of(sink, "request");
    if (!request.empty()) console.out(printable_lines(request) + "\n");
  }
  for (const Json& sink : answer.response.data["sinks"])
    if (sink.is_object() && text_of(sink, "request").empty())
      console.say(printable(text_of(sink, "sink") + " cannot send: " + text_of(sink, "detail")));
  return answer.response.ok ? kDone : kFailed;
}

int test_sinks(Context& context, const Deed& deed) {
  if (!deed.request.dry_run || deed.json) return act(context, deed);
  const Answer answer = ask_daemon(context.state, deed.request);
  if (answer.reach == Reach::Answered) return show_requests(context.console, answer);
  context.console.say("cannot show the requests: " + answer.why);
  return kFailed;
}

// Dry run: the digest as it would be sent now.
int digest(Context& context, const Deed& deed) {
  if (!deed.request.dry_run || deed.json) return act(context, deed);
  const Answer answer = ask_daemon(context.state, deed.request);
  const Console& console = context.console;
  if (answer.reach != Reach::Answered)
    return console.say("cannot show the digest: " + answer.why), kFailed;
  if (!answer.response.ok) return console.say(printable(answer.response.message)), kFailed;
  console.line(printable(answer.response.message));
  console.line(printable(text_of(answer.response.data, "outlook")));
  console.out(printable_lines(text_of(answer.response.data, "report")));
  const std::string to = text_of(answer.response.data, "to");
  console.say(to.empty() ? "nothing is sent: alerts.digest is not set"
                         : "would go to " + printable(to) + "; nothing is sent");
  return kDone;
}

}  // namespace

Command cmd_alerts() {
  return {"alerts",
          "the open alerts and what holds them back; `alerts test` sends one through every sink, "
          "`alerts digest` a digest of the week",
          {"stoker alerts", "stoker alerts test", "stoker alerts digest tr11 --dry-run"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<AlertsOptions>();
            const auto deed = std::make_shared<Deed>();
            deed->request.verb = "alerts-test";
            app.add_flag("--json", options->json, "one JSON array");
            CLI::App* test = app.add_subcommand("test", "send one alert through every sink");
            test->footer("Example:\n  stoker alerts test --dry-run");
            test->add_flag("--dry-run", deed->request.dry_run,
                           "show what each sink would send, secrets masked; send nothing");
            CLI::App* week = app.add_subcommand("digest", "a digest of the week until now");
            week->footer("Example:\n  stoker alerts digest tr11 --dry-run");
            week->add_option("RUN", deed->request.run, "the run")->required();
            week->add_flag("--dry-run", deed->request.dry_run, "show it; send nothing");
            app.require_subcommand(0, 1);
            return [&context, options, deed, test, week] {
              if (!test->parsed() && !week->parsed()) return alerts(context, *options);
              deed->json = options->json;
              if (test->parsed()) return test_sinks(context, *deed);
              deed->request.verb = "alerts-digest";
              return digest(context, *deed);
            };
          }};
}

}  // namespace stoker::cli
