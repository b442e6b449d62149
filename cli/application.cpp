// CLI11 throws to end parsing; this is the one place where it is caught.
#include "cli/application.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "cli/show/documents.hpp"
#include "common/json.hpp"
#include "common/os/files.hpp"
#include "common/os/state_directory.hpp"
#include "configs/schema/yaml_scalars.hpp"

namespace stoker::cli {
namespace {

std::string examples_of(const Command& command) {
  std::string text = command.examples.size() == 1 ? "Example:\n" : "Examples:\n";
  for (const std::string& example : command.examples) text += "  " + example + "\n";
  return text;
}

// The first argument that is no option (nor the value of a global one): the command's name.
std::string command_word(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--state" || arguments[i] == "--color") {
      ++i;
    } else if (!arguments[i].starts_with("-")) {
      return arguments[i];
    }
  }
  return {};
}

// Options that stand before the command and after it alike.
void add_global_options(Application& a) {
  a.app
      ->add_option("--state", a.state,
                   "state directory (default $STOKER_STATE, else $XDG_STATE_HOME/stoker, else "
                   "~/.local/state/stoker)")
      ->type_name("DIR");
  a.app->add_option("--color", a.color, "colours: auto, always, never")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  a.app->set_version_flag("--version", std::string("stoker ") + STOKER_VERSION);
}

int usage_error(const Console& console, const std::string& what, const std::string& command) {
  console.say(what + "; stoker " + (command.empty() ? "" : command + " ") +
              "--help shows how to use it");
  return kUsage;
}

// `stoker help [COMMAND]`, `stoker version` and a bare `stoker` mean what people expect of them.
std::vector<std::string> as_options(std::vector<std::string> arguments, std::string& word) {
  if (word != "help" && word != "version" && !(word.empty() && arguments.empty())) return arguments;
  if (const auto at = std::find(arguments.begin(), arguments.end(), word); at != arguments.end())
    arguments.erase(at);
  arguments.emplace_back(word == "version" ? "--version" : "--help");
  word = command_word(arguments);
  return arguments;
}

std::string unknown_option(const CLI::App& app) {
  std::vector<std::string> unknown = app.remaining(true);
  const auto option = std::find_if(unknown.begin(), unknown.end(),
                                   [](const std::string& word) { return word.starts_with("-"); });
  if (option == unknown.end())
    return fmt::format("unexpected argument \"{}\"", printable(unknown.empty() ? "" : unknown[0]));
  const std::string given = option->substr(0, option->find('='));
  std::vector<std::string> names{"--help", "--state", "--color"};
  const auto all = [](const CLI::App*) { return true; };
  for (const CLI::App* command : app.get_subcommands(all)) {  // the one that was given
    auto parts = command->get_subcommands(all);               // option groups
    parts.push_back(command);
    for (const CLI::App* part : parts)
      for (const CLI::Option* known : part->get_options())
        for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
  }
  const std::string near = configs::nearest_name(given, names);
  return fmt::format("unknown option {}{}", printable(given),
                     near.empty() ? "" : fmt::format("; did you mean {}?", near));
}

int unknown_command(const Console& console, const std::string& word) {
  std::vector<std::string> names;
  for (const Command& command : commands())
    if (!command.hidden) names.push_back(command.name);
  const std::string near = configs::nearest_name(word, names);
  return usage_error(console,
                     "unknown command \"" + printable(word) + "\"" +
                         (near.empty() ? "" : "; did you mean \"" + near + "\"?"),
                     "");
}

}  // namespace

std::unique_ptr<Application> make_application(Context& context, const std::string& only) {
  auto a = std::make_unique<Application>();
  a->app = std::make_unique<CLI::App>(
      "stoker keeps a training run alive: it submits, watches, explains, recovers and alerts "
      "people.",
      "stoker");
  a->app->fallthrough();
  a->app->require_subcommand(1);
  a->app->footer("Example:\n  stoker check hello.yaml && stoker run hello.yaml");
  add_global_options(*a);
  for (const Command& command : commands()) {
    if (!only.empty() && command.name != only) continue;
    CLI::App* sub = a->app->add_subcommand(command.name, command.summary);
    sub->footer(examples_of(command));
    if (command.hidden) sub->group("");
    a->actions[command.name] = command.declare(*sub, context);
  }
  return a;
}

namespace {

int run_command(std::vector<std::string> arguments, Context& context) {
  std::string word = command_word(arguments);
  arguments = as_options(std::move(arguments), word);
  const auto& all = commands();
  const bool known = std::any_of(all.begin(), all.end(),
                                 [&](const Command& command) { return command.name == word; });
  if (!word.empty() && !known) return unknown_command(context.console, word);
  const auto application = make_application(context, word);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    application->app->parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    const auto chosen = application->app->get_subcommands();
    context.console.out(chosen.empty() ? application->app->help() : chosen[0]->help("stoker"));
    return kDone;
  } catch (const CLI::CallForAllHelp&) {
    context.console.out(application->app->help("", CLI::AppFormatMode::All));
    return kDone;
  } catch (const CLI::CallForVersion& version) {
    context.console.line(version.what());
    return kDone;
  } catch (const CLI::ExtrasError&) {
    return usage_error(context.console, unknown_option(*application->app), word);
  } catch (const CLI::ParseError& error) {
    return usage_error(context.console, printable(error.what()), word);
  }
  context.console.use_color(wants_color(application->color == "always"  ? ColorChoice::Always
                                        : application->color == "never" ? ColorChoice::Never
                                                                        : ColorChoice::Auto));
  const std::string state =
      application->state.empty() ? os::default_state(context.environment) : application->state;
  auto absolute = os::absolute_path(state);
  if (!absolute) {
    context.console.say(absolute.error().message());
    return kFailed;
  }
  context.state = *std::move(absolute);
  return application->actions.at(word)();
}

}  // namespace

int run(const std::vector<std::string>& arguments, Context& context) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  if (std::find(arguments.begin(), end, "--json") == end) return run_command(arguments, context);
  bool answered = false;
  std::string said;
  Console json(
      [&](std::string_view text) {
        answered = answered || !text.empty();
        context.console.out(text);
      },
      [&](std::string_view text) {
        said += text;
        context.console.raw_error(text);
      });
  Context inner{json, context.state, context.environment};
  const int code = run_command(arguments, inner);
  if (code == kDone || answered) return code;
  while (said.ends_with('\n')) said.pop_back();
  context.console.line(to_json_text(ErrorDocument{said, code}));
  return code;
}

}  // namespace stoker::cli
