// man(7) pages from the very options that a program parses: `PROGRAM --manual` prints them, for
// deploy/install.cmake. `App` and `Option` are CLI11's, which common/ does not include.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stoker {

// Text that troff takes for nothing else.
std::string troff_text(std::string_view text);
// ".TH STOKER 1 …"
std::string manual_title(const std::string& name, const std::string& version, int section = 1);
// ".TP" with an option and its meaning.
std::string manual_item(const std::string& name, const std::string& meaning);
// A footer as sections: a line that does not begin with a blank and has a colon is a heading.
std::string manual_notes(const std::string& footer, bool headings = true);

struct ManualHead {
  std::string name, version, summary, description;
  std::vector<std::pair<std::string, int>> see_also;
};
std::string manual_begin(const ManualHead& head, bool has_commands);
std::string manual_see_also(const ManualHead& head);

// "-y, --yes", "--to ITERATION", or the name of a positional.
template <class Option>
std::string option_name(const Option& option) {
  if (option.get_positional()) return option.get_name(true);
  std::string name;
  for (const std::string& s : option.get_snames()) name += (name.empty() ? "-" : ", -") + s;
  for (const std::string& l : option.get_lnames()) name += (name.empty() ? "--" : ", --") + l;
  if (option.get_expected_max() > 0 && !option.get_type_name().empty())
    name += " " + option.get_type_name().substr(0, option.get_type_name().find(':'));
  return name;
}

// Without those that are hidden.
template <class App>
std::string manual_options(const App& app) {
  std::string text;
  for (const auto* option : app.get_options())
    if (!option->get_group().empty())
      text += manual_item(option_name(*option), option->get_description() +
                                                    (option->get_required() ? " (required)" : ""));
  return text;
}

template <class App>
std::string manual_page(const App& app, const ManualHead& head) {
  std::string commands;
  for (const auto* command : app.get_subcommands({}))
    if (!command->get_group().empty())
      commands += ".SS " + troff_text(command->get_name()) + "\n" +
                  troff_text(command->get_description()) + "\n" + manual_options(*command) +
                  manual_notes(command->get_footer(), false);
  return manual_begin(head, !commands.empty()) + ".SH OPTIONS\n" + manual_options(app) +
         (commands.empty() ? "" : ".SH COMMANDS\n" + commands) + manual_notes(app.get_footer()) +
         manual_see_also(head);
}

}  // namespace stoker
