// stoker events RUN: the journal as the daemon publishes it, one line an event.
#include <memory>
#include <thread>

#include "cli/commands/all.hpp"
#include "cli/read/event_file.hpp"
#include "cli/read/published.hpp"
#include "cli/show/plain_words.hpp"

namespace stoker::cli {
namespace {

struct EventsOptions {
  std::string run, since;
  std::size_t last = 0;
  bool json = false, follow = false;
};

std::string render(const Console& console, const wire::PublishedEvent& e) {
  std::string text = console.paint(Ink::Dim, std::to_string(e.seq)) + "  " + printable(e.time) +
                     "  " + printable(event_words(e.kind));
  if (!e.decision.empty()) text += "  " + console.paint(Ink::Bold, printable(e.decision));
  if (!e.reason.empty()) text += "  " + printable(e.reason);
  for (const std::string& action : e.actions)
    text += "\n      -> " + printable(action_words(action));
  return text;
}

int events(Context& context, const EventsOptions& options) {
  const Console& console = context.console;
  std::optional<WallTime> since;
  if (!options.since.empty()) {
    const auto at = parse_since(options.since, wall_now());
    if (!at) return console.say("--since: " + at.error().message()), kUsage;
    since = *at;
  }
  const auto run = find_run(context.state, options.run);
  if (!run) return console.say(run.error().message()), kFailed;
  note_daemon(context);
  auto file = EventFile::open(run->directory);
  if (!file) return console.say(file.error().message()), kFailed;
  const auto show = [&](const wire::PublishedEvent& e) {
    console.line(options.json ? to_json_text(e) : render(console, e));
  };
  Status good = file->read(since, options.last, show);
  while (good && options.follow) {
    std::this_thread::sleep_for(200ms);
    good = file->follow(show);
  }
  if (!good) return console.say(good.error().message()), kFailed;
  if (file->unreadable() > 0)
    console.say(std::to_string(file->unreadable()) + " lines of " + run->directory +
                "/events.jsonl could not be read and were left out");
  return kDone;
}

}  // namespace

Command cmd_events() {
  return {"events",
          "the journal of a run",
          {"stoker events hello --since 2h", "stoker events hello --follow --json"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<EventsOptions>();
            app.add_option("RUN", options->run, "name of a run or a run directory")->required();
            app.add_flag("--follow,-f", options->follow, "go on with what is new");
            app.add_option("--since", options->since, "from this time on (RFC 3339), or 2h")
                ->type_name("T");
            app.add_option("-n,--last", options->last, "only the last N events")->type_name("N");
            app.add_flag("--json", options->json, "JSON lines");
            return [&context, options] { return events(context, *options); };
          }};
}

}  // namespace stoker::cli
