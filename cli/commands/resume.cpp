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
            return [&context, deed] { return act(context, *deed); };
          }};
}

}  // namespace stoker::cli
