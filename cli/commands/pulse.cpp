// stoker pulse [RUN]: one line a run, PULSE or ***ALERT, for a log of logs. Exit 2: an ***ALERT.
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/read/published.hpp"
#include "cli/show/documents.hpp"
#include "cli/show/pulse_text.hpp"

namespace stoker::cli {
namespace {

struct PulseOptions {
  std::string run;
  bool json = false;
};

int pulse(Context& context, const PulseOptions& options) {
  const Console& console = context.console;
  std::vector<wire::SiteRun> runs;
  if (options.run.empty()) {
    auto all = published_runs(context.state);
    if (!all) return console.say(all.error().message()), kFailed;
    runs = *std::move(all);
  } else {
    auto run = find_run(context.state, options.run);
    if (!run) return console.say(run.error().message()), kFailed;
    runs.push_back(*std::move(run));
  }
  const Reach reach = note_daemon(context);
  std::vector<PulseDocument> all;
  bool good = true, alert = false;
  for (const wire::SiteRun& run : runs) {
    const auto status = read_status(run, reach);
    if (!status) {
      console.say(status.error().message());
      good = false;
      continue;
    }
    const std::string line = printable(pulse_text(*status, wall_now()));
    alert = alert || is_alert(*status);
    if (options.json)
      all.push_back({status->run, status->state, status->stale, is_alert(*status), line});
    else
      console.line(line);
  }
  if (options.json) console.line(to_json_text(all));
  if (!good) return kFailed;
  return alert ? kAlert : kDone;
}

}  // namespace

Command cmd_pulse() {
  return {"pulse",
          "one line a run, PULSE or ***ALERT (exit 2), for a log of logs",
          {"stoker pulse hello >> pulse.log"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<PulseOptions>();
            app.add_option("RUN", options->run, "name of a run or a run directory; default: all");
            app.add_flag("--json", options->json, "one JSON array");
            return [&context, options] { return pulse(context, *options); };
          }};
}

}  // namespace stoker::cli
