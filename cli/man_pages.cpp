// man(7) pages of the command tree: one of all commands, one for each.
#include <fmt/format.h>

#include "cli/application.hpp"
#include "cli/reference.hpp"

namespace stoker::cli {
namespace {

// Text that troff takes for nothing else.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if ((out.empty() || out.back() == '\n') && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string title(const std::string& name) {
  std::string upper = name;
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return fmt::format(".TH {} 1 \"\" \"stoker {}\" \"User Commands\"\n", plain(upper),
                     STOKER_VERSION);
}

std::string options_of(const CLI::App& app) {
  std::string text;
  std::vector<const CLI::App*> parts{&app};
  for (const CLI::App* part : app.get_subcommands({})) parts.push_back(part);
  for (const CLI::App* part : parts)
    for (const CLI::Option* option : part->get_options()) {
      const std::string name = part != &app && !part->get_name().empty()
                                   ? part->get_name() + " " + option_name(*option)
                                   : option_name(*option);
      text += fmt::format(".TP\n.B {}\n{}{}\n", plain(name), plain(option->get_description()),
                          option->get_required() ? " (required)" : "");
    }
  return text;
}

std::string examples_of(const std::vector<std::string>& examples) {
  std::string text = ".SH EXAMPLES\n.nf\n";
  for (const std::string& example : examples) text += plain(example) + "\n";
  return text + ".fi\n";
}

constexpr const char* kExit =
    ".SH EXIT STATUS\n0 done, 1 failed, 2 usage or configuration error.\n";

}  // namespace

std::vector<std::pair<std::string, std::string>> render_man_pages() {
  Console nowhere([](std::string_view) {}, [](std::string_view) {});
  Context context{nowhere, "", {}};
  const auto whole = make_application(context);
  std::string all, others;
  std::vector<std::pair<std::string, std::string>> pages;
  for (const Command& command : commands()) {
    if (command.hidden) continue;
    const std::string name = "stoker-" + command.name;
    all += fmt::format(".TP\n.B {}\n{}\n", plain(command.name), plain(command.summary));
    others += fmt::format("{}.BR {} (1)", others.empty() ? "" : ",\n", plain(name));
    pages.emplace_back(
        name + ".1",
        title(name) +
            fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B stoker {}\n[\\fIoptions\\fR]\n",
                        plain(name), plain(command.summary), plain(command.name)) +
            ".SH OPTIONS\n" + options_of(*whole->app->get_subcommand(command.name)) +
            examples_of(command.examples) + kExit + ".SH SEE ALSO\n.BR stoker (1)\n");
  }
  std::string globals;
  for (const CLI::Option* option : whole->app->get_options())
    globals += fmt::format(".TP\n.B {}\n{}\n", plain(option_name(*option)),
                           plain(option->get_description()));
  pages.emplace_back(
      "stoker.1",
      title("stoker") +
          ".SH NAME\nstoker \\- keep a training run alive on a cluster\n.SH SYNOPSIS\n"
          ".B stoker\n[\\fIoptions\\fR] \\fIcommand\\fR [\\fIarguments\\fR]\n.SH DESCRIPTION\n" +
          plain("Submits, watches, explains, recovers and alerts people. Data goes to standard "
                "output, talk to standard error. RUN is the name of a run or a run directory.") +
          "\n.SH OPTIONS\n" + globals + ".SH COMMANDS\n" + all + kExit + ".SH SEE ALSO\n" + others +
          "\n");
  return pages;
}

}  // namespace stoker::cli
