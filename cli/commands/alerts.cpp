// stoker alerts: the open alerts of the site and of all runs; `stoker alerts test` sends one
// through every sink.
#include <memory>

#include "cli/acting.hpp"
#include "cli/commands/all.hpp"
#include "cli/published.hpp"

namespace stoker::cli {
namespace {

struct AlertsOptions {
  std::string run;
  bool json = false;
};

void show(const Console& console, const std::string& run, const wire::StatusAlert& a) {
  const Ink ink = a.severity == "critical" ? Ink::Red : Ink::Yellow;
  console.line(console.paint(ink, printable(a.severity)) + "  " +
               (run.empty() ? "the site" : printable(run)) + "  " + printable(a.summary) +
               "  since " + printable(a.since) + (a.acknowledged ? "  (acknowledged)" : ""));
  if (!a.reason.empty()) console.line("    why " + printable(a.reason));
  if (!a.command.empty()) console.line("    do  " + printable(a.command));
  if (!a.acknowledged) console.line("    ack stoker ack " + printable(a.id));
}

int alerts(Context& context, const AlertsOptions& options) {
  const Console& console = context.console;
  const auto site = published_site(context.state);
  if (!site) return console.say(site.error().message()), kFailed;
  const Reach reach = note_daemon(context);
  Json all = Json::array();
  bool good = true;
  const auto add = [&](const std::string& run, const wire::StatusAlert& alert, bool stale) {
    Json entry(alert);
    entry["run"] = run;
    entry["stale"] = stale;
    all.push_back(entry);
    if (!options.json) show(console, run, alert);
  };
  for (const wire::StatusAlert& alert : site->alerts)
    add("", alert, reach == Reach::Away || reach == Reach::Silent);
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
  return good ? kDone : kFailed;
}

}  // namespace

Command cmd_alerts() {
  return {"alerts",
          "the open alerts; `alerts test` sends one through every sink",
          {"stoker alerts", "stoker alerts test"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<AlertsOptions>();
            const auto deed = std::make_shared<Deed>();
            deed->request.verb = "alerts-test";
            app.add_flag("--json", options->json, "one JSON array");
            CLI::App* test = app.add_subcommand("test", "send one alert through every sink");
            test->footer("Example:\n  stoker alerts test --dry-run");
            test->add_flag("--dry-run", deed->request.dry_run, "show what would be sent");
            app.require_subcommand(0, 1);
            return [&context, options, deed, test] {
              if (!test->parsed()) return alerts(context, *options);
              deed->json = options->json;
              return act(context, *deed);
            };
          }};
}

}  // namespace stoker::cli
