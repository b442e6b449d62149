// stoker silence MATCHER... --for 2h: alerts that match are shown and not sent for a while.
// --list shows the silences in force, --extend and --end change one.
#include <memory>

#include "cli/acting.hpp"
#include "cli/commands/all.hpp"
#include "cli/read/published.hpp"

namespace stoker::cli {
namespace {

struct SilenceOptions {
  Deed deed;
  std::vector<std::string> matchers;
  std::string length = "2h", ended, extended;
  bool list = false;
};

int list_silences(const Context& context, bool json) {
  const Console& console = context.console;
  const auto site = published_site(context.state);
  if (!site) return console.say(site.error().message()), kFailed;
  note_daemon(context);
  if (json) return console.line(to_json_text(site->silences)), kDone;
  if (site->silences.empty()) console.line("no silence is in force");
  for (const wire::StatusSilence& s : site->silences)
    console.line(printable(s.id) + "  " + printable(s.match) + "  until " + printable(s.until) +
                 "  by " + printable(s.by) + (s.reason.empty() ? "" : ": " + printable(s.reason)));
  return kDone;
}

int silence(Context& context, const SilenceOptions& options) {
  Deed deed = options.deed;
  deed.request.verb = "silence";
  const int modes = int{options.list} + int{!options.ended.empty()} +
                    int{!options.extended.empty()} + int{!options.matchers.empty()};
  if (modes != 1)
    return context.console.say(
               "give matchers like kind=hang, or one of --list, --end ID and --extend ID"),
           kUsage;
  if (options.list) return list_silences(context, options.deed.json);
  if (!options.ended.empty()) {
    deed.request.arguments["end"] = options.ended;
    return act(context, std::move(deed));
  }
  if (!options.extended.empty()) deed.request.arguments["extend"] = options.extended;
  for (const std::string& matcher : options.matchers) {
    const std::size_t equals = matcher.find('=');
    const std::string key = matcher.substr(0, equals);
    if (equals == std::string::npos || equals == 0 || key == "for" || key == "end" ||
        key == "extend")
      return context.console.say("expected label=value, like kind=hang or node=n07, got " +
                                 printable(matcher)),
             kUsage;
    deed.request.arguments[matcher.substr(0, equals)] = matcher.substr(equals + 1);
  }
  const auto length = parse_duration(options.length);
  if (!length || *length <= Duration(0))
    return context.console.say("--for: expected a duration like 2h, got " +
                               printable(options.length)),
           kUsage;
  deed.request.arguments["for"] = options.length;
  return act(context, std::move(deed));
}

}  // namespace

Command cmd_silence() {
  return {"silence",
          "show alerts that match without sending them for a while",
          {"stoker silence run=hello kind=hang --for 2h --reason 'known, being repaired'",
           "stoker silence --list", "stoker silence --end s12"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<SilenceOptions>();
            app.add_option("MATCHER", options->matchers,
                           "label=value: run, kind, severity, node; all must match");
            app.add_flag("--list", options->list, "the silences in force");
            app.add_option("--end", options->ended, "end this silence now")->type_name("ID");
            app.add_option("--extend", options->extended, "let this silence last --for from now")
                ->type_name("ID");
            app.add_option("--for", options->length, "how long (default 2h)")->type_name("2h");
            app.add_option("--reason", options->deed.request.reason, "why")->type_name("TEXT");
            app.add_flag("--dry-run", options->deed.request.dry_run, "show what would be done");
            app.add_flag("--json", options->deed.json, "one JSON document");
            return [&context, options] { return silence(context, *options); };
          }};
}

}  // namespace stoker::cli
