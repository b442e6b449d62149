// stoker stop RUN [--after-checkpoint | --now | --at TIME | --at-iteration N]: save, leave, cancel
// what is queued.
#include <memory>

#include "cli/acting.hpp"
#include "cli/commands/all.hpp"

namespace stoker::cli {
namespace {

struct StopOptions {
  Deed deed;
  bool after_checkpoint = false, now = false;
  std::string at;
  std::optional<std::uint64_t> at_iteration;
};

int stop(Context& context, const StopOptions& options) {
  Deed deed = options.deed;
  deed.request.verb = "stop";
  auto& arguments = deed.request.arguments;
  if (options.after_checkpoint) arguments["after-checkpoint"] = "true";
  if (options.now) arguments["now"] = "true";
  if (options.at_iteration) arguments["at-iteration"] = std::to_string(*options.at_iteration);
  if (!options.at.empty()) {
    const auto moment = parse_moment(options.at, wall_now());
    if (!moment) return context.console.say("--at: " + moment.error().message()), kUsage;
    arguments["at"] = *moment;
  }
  if (arguments.empty()) deed.switch_file = "stop";
  if (options.now) deed.switch_file = "kill";
  return act(context, std::move(deed));
}

}  // namespace

Command cmd_stop() {
  return {"stop",
          "save, leave, cancel what is queued; no further submissions",
          {"stoker stop hello --reason 'new data set'", "stoker stop hello --now --reason broken",
           "stoker stop hello --at 2h --reason maintenance"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<StopOptions>();
            add_acting_options(app, options->deed, true);
            auto* when = app.add_option_group("when", "at most one of");
            when->add_flag("--after-checkpoint", options->after_checkpoint,
                           "after the next regular checkpoint");
            when->add_flag("--now", options->now, "without saving");
            when->add_option("--at", options->at, "at this time (RFC 3339), or in 2h")
                ->type_name("TIME");
            when->add_option("--at-iteration", options->at_iteration, "when this iteration is done")
                ->type_name("N");
            when->require_option(0, 1);
            return [&context, options] { return stop(context, *options); };
          }};
}

}  // namespace stoker::cli
