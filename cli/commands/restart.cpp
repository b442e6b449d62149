// stoker restart RUN: restart the ranks from the newest good checkpoint.
#include <memory>

#include "cli/acting.hpp"
#include "cli/commands/all.hpp"

namespace stoker::cli {

Command cmd_restart() {
  return {"restart",
          "restart the ranks from the newest good checkpoint",
          {"stoker restart hello --reason 'loader stuck'"},
          [](CLI::App& app, Context& context) -> Action {
            const auto deed = std::make_shared<Deed>();
            deed->request.verb = "restart";
            deed->switch_file = "restart";
            add_acting_options(app, *deed, true);
            return [&context, deed] { return act(context, *deed); };
          }};
}

}  // namespace stoker::cli
