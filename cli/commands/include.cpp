// stoker include NODE...: these nodes may be used again.
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/read/node_lists.hpp"

namespace stoker::cli {

Command cmd_include() {
  return {"include",
          "use these nodes again",
          {"stoker include n007 --reason repaired"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<NodeDeed>();
            add_node_options(app, *options, false);
            return [&context, options] { return act_on_nodes(context, "include", *options); };
          }};
}

}  // namespace stoker::cli
