// stoker silence MATCHER... --for 2h: alerts that match are kept back for a while.
#include <memory>

#include "cli/acting.hpp"
#include "cli/commands/all.hpp"

namespace stoker::cli {
namespace {

struct SilenceOptions {
  Deed deed;
  std::vector<std::string> matchers;
  std::string length = "2h";
};

int silence(Context& context, const SilenceOptions& options) {
  Deed deed = options.deed;
  deed.request.verb = "silence";
  for (const std::string& matcher : options.matchers) {
    const std::size_t equals = matcher.find('=');
    if (equals == std::string::npos || equals == 0 || matcher.substr(0, equals) == "for")
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
          "keep alerts that match back for a while",
          {"stoker silence run=hello kind=hang --for 2h --reason 'known, being mended'"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<SilenceOptions>();
            app.add_option("MATCHER", options->matchers,
                           "label=value: run, kind, severity, node; all must match")
                ->required();
            app.add_option("--for", options->length, "how long (default 2h)")->type_name("2h");
            app.add_option("--reason", options->deed.request.reason, "why")->type_name("TEXT");
            app.add_flag("--dry-run", options->deed.request.dry_run, "show what would be done");
            app.add_flag("--json", options->deed.json, "one JSON document");
            return [&context, options] { return silence(context, *options); };
          }};
}

}  // namespace stoker::cli
