// stoker exclude NODE... [--for 24h]: no run uses these nodes for a while.
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/read/node_lists.hpp"

namespace stoker::cli {

Command cmd_exclude() {
  return {"exclude",
          "use these nodes for no run for a while",
          {"stoker exclude 'n[001-004,7]' --for 24h --reason 'slow links'"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<NodeDeed>();
            add_node_options(app, *options, true);
            app.add_option("--for", options->length, "how long (default: recover.exclude.for)")
                ->type_name("24h");
            return [&context, options] { return act_on_nodes(context, "exclude", *options); };
          }};
}

}  // namespace stoker::cli
