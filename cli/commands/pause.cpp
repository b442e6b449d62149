// stoker pause RUN: submit nothing more until resume; a running task goes on.
#include <memory>

#include "cli/acting.hpp"
#include "cli/commands/all.hpp"

namespace stoker::cli {

Command cmd_pause() {
  return {"pause",
          "submit nothing more until resume; a running task goes on",
          {"stoker pause hello --reason 'maintenance on Tuesday'"},
          [](CLI::App& app, Context& context) -> Action {
            const auto deed = std::make_shared<Deed>();
            deed->request.verb = "pause";
            deed->switch_file = "pause";
            add_acting_options(app, *deed, true);
            return [&context, deed] { return act(context, *deed); };
          }};
}

}  // namespace stoker::cli
