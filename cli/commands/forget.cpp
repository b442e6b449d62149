// stoker forget RUN: a finished or stopped run leaves the daemon's list; its files stay.
#include <memory>

#include "cli/acting.hpp"
#include "cli/commands/all.hpp"

namespace stoker::cli {

Command cmd_forget() {
  return {"forget",
          "remove a finished or stopped run from the daemon's list; its files stay",
          {"stoker forget hello --dry-run", "stoker forget hello --yes --reason 'published'"},
          [](CLI::App& app, Context& context) -> Action {
            struct Options {
              Deed deed;
              bool yes = false;
            };
            const auto options = std::make_shared<Options>();
            options->deed.request.verb = "forget";
            add_acting_options(app, options->deed, false);
            app.add_flag("--yes", options->yes, "do not ask");
            return
                [&context, options] { return act_when_sure(context, options->deed, options->yes); };
          }};
}

}  // namespace stoker::cli
