// stoker rename RUN NEW: another name for a run that is over; its files and its history stay.
#include <memory>

#include "cli/acting.hpp"
#include "cli/commands/all.hpp"

namespace stoker::cli {

Command cmd_rename() {
  return {"rename",
          "give a finished, stopped or held run another name; its files and its history stay",
          {"stoker rename hello hello-2026 --dry-run", "stoker rename hello hello-2026 --yes"},
          [](CLI::App& app, Context& context) -> Action {
            struct Options {
              Deed deed;
              bool yes = false;
            };
            const auto options = std::make_shared<Options>();
            options->deed.request.verb = "rename";
            add_acting_options(app, options->deed, false);
            app.add_option("NEW", options->deed.request.arguments["to"],
                           "letters, digits, '.', '_' and '-'; at most 64")
                ->required();
            app.add_flag("--yes", options->yes, "do not ask");
            return
                [&context, options] { return act_when_sure(context, options->deed, options->yes); };
          }};
}

}  // namespace stoker::cli
