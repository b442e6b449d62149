// stoker rollback RUN --to ITERATION [--lr-scale X] [--skip-samples N]: back to a checkpoint.
#include <fmt/format.h>
#include <memory>

#include "cli/acting.hpp"
#include "cli/commands/all.hpp"

namespace stoker::cli {

Command cmd_rollback() {
  return {"rollback",
          "go back to the checkpoint of an iteration",
          {"stoker rollback hello --to 1200 --lr-scale 0.75 --reason 'loss spike' --dry-run"},
          [](CLI::App& app, Context& context) -> Action {
            struct Options {
              Deed deed;
              std::uint64_t to = 0, skip = 0;
              double lr_scale = 1;
            };
            const auto options = std::make_shared<Options>();
            add_acting_options(app, options->deed, true);
            app.add_option("--to", options->to, "iteration of the checkpoint")
                ->required()
                ->type_name("ITERATION");
            app.add_option("--lr-scale", options->lr_scale, "multiply the learning rate")
                ->check(CLI::Range(1e-6, 100.0))
                ->type_name("X");
            app.add_option("--skip-samples", options->skip,
                           "leave out this many samples after the checkpoint")
                ->type_name("N");
            return [&context, options] {
              Deed deed = options->deed;
              deed.request.verb = "rollback";
              auto& arguments = deed.request.arguments;
              arguments["to"] = std::to_string(options->to);
              if (options->lr_scale != 1)
                arguments["lr-scale"] = fmt::format("{}", options->lr_scale);
              if (options->skip > 0) arguments["skip-samples"] = std::to_string(options->skip);
              return act(context, std::move(deed));
            };
          }};
}

}  // namespace stoker::cli
