// stoker docs DIR (hidden): writes the generated pages of docs/; with --check it only compares.
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/reference.hpp"
#include "common/os/files.hpp"
#include "configs/schema/describe.hpp"
#include "core/alerts/alert_kind.hpp"
#include "core/publish/render_states.hpp"
#include "recipe/schedule/describe.hpp"

namespace stoker::cli {
namespace {

struct DocsOptions {
  std::string directory;
  bool check = false, man = false;
};

int docs(Context& context, const DocsOptions& options) {
  std::vector<std::pair<std::string, std::string>> pages;
  if (options.man)
    pages = render_man_pages();
  else
    pages = {{"configuration.md", configs::render_configuration()},
             {"cli.md", render_cli_reference()},
             {"states.md", core::render_states()},
             {"alert-kinds.md", core::render_alert_kinds()},
             {"schedules.md", recipe::render_schedules()}};
  int code = kDone;
  for (const auto& [name, text] : pages) {
    const std::string path = options.directory + "/" + name;
    const auto present = os::read_file(path);
    if (present && *present == text) continue;
    if (options.check) {
      context.console.say(path + " is not what the programs say");
      code = kFailed;
      continue;
    }
    if (const Status written = os::replace_file(path, text, os::Durability::Cached); !written)
      return context.console.say(written.error().message()), kFailed;
    context.console.say("wrote " + path);
  }
  return code;
}

}  // namespace

Command cmd_docs() {
  Command command{"docs",
                  "write the generated pages of docs/",
                  {"stoker docs docs --check", "stoker docs man1 --man"},
                  [](CLI::App& app, Context& context) -> Action {
                    const auto options = std::make_shared<DocsOptions>();
                    app.add_option("DIR", options->directory, "folder of the pages")->required();
                    app.add_flag("--check", options->check, "only compare; exit 1 on a difference");
                    app.add_flag("--man", options->man, "the manual pages instead");
                    return [&context, options] { return docs(context, *options); };
                  }};
  command.hidden = true;
  return command;
}

}  // namespace stoker::cli
