// One section a command: summary, usage, a table of its options, examples.
#include "cli/reference.hpp"

#include <fmt/format.h>

#include "cli/application.hpp"
#include "common/manual_page.hpp"

namespace stoker::cli {
namespace {

std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  return text;
}

std::string options_table(const CLI::App& app) {
  std::string rows;
  std::vector<const CLI::App*> parts{&app};
  for (const CLI::App* sub : app.get_subcommands({})) parts.push_back(sub);
  for (const CLI::App* part : parts)
    for (const CLI::Option* option : part->get_options()) {
      if (option->get_name() == "--help") continue;
      std::string name = option_name(*option);
      if (part != &app && !part->get_name().empty()) name = part->get_name() + " " + name;
      rows += fmt::format("| `{}` | {}{} |\n", cell(name), cell(option->get_description()),
                          option->get_required() ? " (required)" : "");
    }
  return rows.empty() ? "" : "| option | meaning |\n|---|---|\n" + rows + "\n";
}

}  // namespace

std::string render_cli_reference() {
  Console nowhere([](std::string_view) {}, [](std::string_view) {});
  Context context{nowhere, "", {}};
  const auto whole = make_application(context);
  std::string text =
      "# Command line\n\n"
      "Generated from the command tree by `./dev docs`; do not edit.\n\n"
      "Data goes to standard output, talk to standard error. Exit codes: 0 done, 1 failed, 2 usage "
      "or configuration error.\nReading commands answer from what the daemon published and say "
      "when it is away. RUN is the name of a run or a run\ndirectory. Acting commands that cannot "
      "reach the daemon write the switch file of the same name and say so.\n\n"
      "## Everywhere\n\n"
      "| option | meaning |\n|---|---|\n";
  for (const CLI::Option* option : whole->app->get_options())
    if (option->get_name() != "--help")
      text += fmt::format("| `{}` | {} |\n", cell(option_name(*option)),
                          cell(option->get_description()));
  for (const Command& command : commands()) {
    if (command.hidden) continue;
    text += fmt::format("\n## stoker {}\n\n{}.\n\n", command.name, command.summary);
    text += options_table(*whole->app->get_subcommand(command.name));
    text += "```\n";
    for (const std::string& example : command.examples) text += example + "\n";
    text += "```\n";
  }
  return text;
}

}  // namespace stoker::cli
