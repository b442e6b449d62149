// man(7) pages: section 1 from the command tree, one of all commands and one for each; section 5
// from the keys and meanings of which docs/configuration.md is made.
#include <algorithm>
#include <fmt/format.h>

#include "cli/application.hpp"
#include "cli/reference.hpp"
#include "common/manual_page.hpp"
#include "configs/schema/describe.hpp"

namespace stoker::cli {
namespace {

using configs::KeyMeaning;
using configs::SchemaKey;

// The Markdown of one cell: what stands between backticks is bold.
std::string marked(const std::string& cell) {
  std::string out;
  bool code = false;
  for (std::size_t at = 0; at <= cell.size();) {
    const std::size_t end = std::min(cell.find('`', at), cell.size());
    const std::string part = troff_text(cell.substr(at, end - at));
    out += code && !part.empty() ? "\\fB" + part + "\\fR" : part;
    code = !code;
    at = end + 1;
  }
  return out;
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
      text += manual_item(
          name, option->get_description() + (option->get_required() ? " (required)" : ""));
    }
  return text;
}

std::string examples_of(const std::vector<std::string>& examples) {
  std::string text = ".SH EXAMPLES\n.nf\n";
  for (const std::string& example : examples) text += troff_text(example) + "\n";
  return text + ".fi\n";
}

constexpr const char* kExit =
    ".SH EXIT STATUS\n0 done, 1 failed, 2 usage or configuration error.\n";

std::string keys_of(const std::vector<SchemaKey>& keys, const std::vector<KeyMeaning>& meanings) {
  std::string text, section;
  for (const SchemaKey& key : keys) {
    const std::size_t dot = key.key.find('.');
    // A key without a section stands at the top, or is one of its own.
    const std::string alone = section.empty() ? "" : key.key;
    const std::string top = dot == std::string::npos ? alone : key.key.substr(0, dot);
    if (top != section) text += ".SS " + troff_text(top) + "\n";
    section = top;
    const auto meaning = std::find_if(meanings.begin(), meanings.end(),
                                      [&](const KeyMeaning& m) { return key.key == m.key; });
    text += fmt::format(".TP\n.B {}\n", troff_text(key.key));
    if (meaning != meanings.end())
      text += fmt::format("{} ({}; ", marked(meaning->meaning), marked(meaning->unit));
    else
      text += "(";
    text += key.fallback.empty() ? "required)\n" : "default: " + marked(key.fallback) + ")\n";
  }
  return text;
}

std::pair<std::string, std::string> file_page(const std::string& name, const std::string& what,
                                              const std::string& keys, const std::string& see) {
  return {
      name + ".5",
      manual_title(name, STOKER_VERSION, 5) +
          fmt::format(".SH NAME\n{} \\- {}\n", troff_text(name), troff_text(what)) +
          ".SH DESCRIPTION\n" +
          troff_text("A file in YAML. Durations are written 90s, 10min, 20h, 7d; sizes 512MiB; "
                     "shares 5%. Unknown and duplicate keys are errors with the nearest name, and "
                     "all errors are reported at once with file, line and column. \"stoker check "
                     "--effective RUN.yaml\" prints the full configuration with where each value "
                     "came from.") +
          "\n.SH KEYS\n" + keys + ".SH SEE ALSO\n" + see};
}

}  // namespace

std::vector<std::pair<std::string, std::string>> render_man_pages() {
  Console nowhere([](std::string_view) {}, [](std::string_view) {});
  Context context{nowhere, "", {}};
  const auto whole = make_application(context);
  std::string all, others = ".BR stokerd (1),\n.BR stoker\\-agent (1),\n.BR stoker\\-train (1)";
  std::vector<std::pair<std::string, std::string>> pages;
  for (const Command& command : commands()) {
    if (command.hidden) continue;
    const std::string name = "stoker-" + command.name;
    all += manual_item(command.name, command.summary);
    others += fmt::format(",\n.BR {} (1)", troff_text(name));
    pages.emplace_back(
        name + ".1",
        manual_title(name, STOKER_VERSION) +
            fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B stoker {}\n[\\fIoptions\\fR]\n",
                        troff_text(name), troff_text(command.summary), troff_text(command.name)) +
            ".SH OPTIONS\n" + options_of(*whole->app->get_subcommand(command.name)) +
            examples_of(command.examples) + kExit + ".SH SEE ALSO\n.BR stoker (1)\n");
  }
  std::string globals;
  for (const CLI::Option* option : whole->app->get_options())
    globals += manual_item(option_name(*option), option->get_description());
  pages.emplace_back(
      "stoker.1",
      manual_title("stoker", STOKER_VERSION) +
          ".SH NAME\nstoker \\- keep a training run alive on a cluster\n.SH SYNOPSIS\n"
          ".B stoker\n[\\fIoptions\\fR] \\fIcommand\\fR [\\fIarguments\\fR]\n.SH DESCRIPTION\n" +
          troff_text(
              "Submits, watches, explains, recovers and alerts people. Data goes to standard "
              "output, talk to standard error. RUN is the name of a run or a run directory.") +
          "\n.SH OPTIONS\n" + globals + ".SH COMMANDS\n" + all + kExit + ".SH SEE ALSO\n" + others +
          "\n");
  pages.push_back(file_page(
      "stoker-run", "RUN.yaml, the configuration of a run of stoker",
      keys_of(configs::run_schema_keys(), configs::run_key_meanings()),
      ".BR stoker (1),\n.BR stokerd (1),\n.BR stoker\\-check (1),\n.BR stoker\\-train (5)\n"));
  pages.push_back(file_page(
      "stoker-train", "TRAIN.yaml, the configuration of the training core of stoker",
      keys_of(configs::train_schema_keys(), configs::train_key_meanings()),
      ".BR stoker (1),\n.BR stoker\\-train (1),\n.BR stoker\\-plan (1),\n.BR stoker\\-run (5)\n"));
  return pages;
}

}  // namespace stoker::cli
