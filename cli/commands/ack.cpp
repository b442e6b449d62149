// stoker ack ID: somebody has seen the alert; it is not repeated.
#include <memory>

#include "cli/acting.hpp"
#include "cli/commands/all.hpp"

namespace stoker::cli {

Command cmd_ack() {
  return {"ack",
          "acknowledge an alert: it is not repeated",
          {"stoker ack hello/crash_loop/412"},
          [](CLI::App& app, Context& context) -> Action {
            const auto deed = std::make_shared<Deed>();
            deed->request.verb = "ack";
            app.add_option("ID", deed->request.arguments["id"], "as `stoker alerts` shows it")
                ->required();
            app.add_option("--reason", deed->request.reason, "note for other operators")
                ->type_name("TEXT");
            app.add_flag("--dry-run", deed->request.dry_run, "show what would be done");
            app.add_flag("--json", deed->json, "one JSON document");
            return [&context, deed] { return act(context, *deed); };
          }};
}

}  // namespace stoker::cli
