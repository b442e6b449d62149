// stoker save RUN [--at-iteration N]: a checkpoint, and the training goes on.
#include <memory>

#include "cli/acting.hpp"
#include "cli/commands/all.hpp"

namespace stoker::cli {

Command cmd_save() {
  return {"save",
          "make a checkpoint and go on",
          {"stoker save hello", "stoker save hello --at-iteration 5000"},
          [](CLI::App& app, Context& context) -> Action {
            struct Options {
              Deed deed;
              std::optional<std::uint64_t> at_iteration;
            };
            const auto options = std::make_shared<Options>();
            add_acting_options(app, options->deed, false);
            app.add_option("--at-iteration", options->at_iteration, "when this iteration is done")
                ->type_name("N");
            return [&context, options] {
              Deed deed = options->deed;
              deed.request.verb = "save";
              if (options->at_iteration)
                deed.request.arguments["at-iteration"] = std::to_string(*options->at_iteration);
              else
                deed.switch_file = "save";
              return act(context, std::move(deed));
            };
          }};
}

}  // namespace stoker::cli
