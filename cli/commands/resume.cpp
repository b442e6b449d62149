// stoker resume RUN: submit again; also takes a held or stopped run up again.
#include <memory>

#include "cli/acting.hpp"
#include "cli/commands/all.hpp"

namespace stoker::cli {

Command cmd_resume() {
  return {"resume",
          "submit again; also takes a held or stopped run up again",
          {"stoker resume hello"},
          [](CLI::App& app, Context& context) -> Action {
            const auto deed = std::make_shared<Deed>();
            deed->request.verb = "resume";
            deed->switch_file = "resume";
            add_acting_options(app, *deed, false);
            const auto as_is = std::make_shared<bool>(false);
            app.add_flag("--as-is", *as_is,
                         "take the next start as it is, also where the resume audit would stop it");
            return [&context, deed, as_is] {
              if (*as_is) {
                deed->request.arguments["as-is"] = "true";
                deed->switch_file.clear();  // a file cannot say it
              }
              return act(context, *deed);
            };
          }};
}

}  // namespace stoker::cli
