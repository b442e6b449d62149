// stoker rollback RUN --to ITERATION|auto [--lr-scale X] [--skip-samples N]: back to a checkpoint.
#include <fmt/format.h>
#include <memory>
#include <optional>

#include "cli/acting.hpp"
#include "cli/commands/all.hpp"

namespace stoker::cli {
namespace {

std::string is_iteration_or_auto(const std::string& text) {
  const bool digits = !text.empty() && text.size() < 19 &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  return digits || text == "auto" ? "" : "--to: expected an iteration or auto, got " + text;
}

}  // namespace

Command cmd_rollback() {
  return {"rollback",
          "go back to the checkpoint of an iteration",
          {"stoker rollback hello --to 1200 --lr-scale 0.75 --reason 'loss spike' --dry-run"},
          [](CLI::App& app, Context& context) -> Action {
            struct Options {
              Deed deed;
              std::string to;
              std::optional<std::uint64_t> skip;
              std::optional<double> lr_scale;
            };
            const auto options = std::make_shared<Options>();
            add_acting_options(app, options->deed, true);
            app.add_option(
                   "--to", options->to,
                   "iteration of the checkpoint; auto: where recover.rollback would go back "
                   "to, and with what, when the loss has gone wrong")
                ->required()
                ->check(is_iteration_or_auto, "ITERATION")
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
              arguments["to"] = options->to;
              if (options->lr_scale) arguments["lr-scale"] = fmt::format("{}", *options->lr_scale);
              if (options->skip) arguments["skip-samples"] = std::to_string(*options->skip);
              return act(context, std::move(deed));
            };
          }};
}

}  // namespace stoker::cli
