// stoker top [RUN]: the full screen of all runs, from what the daemon published; also while the
// daemon is away. Where there is no full screen it is `stoker status`.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <unistd.h>

#include "cli/application.hpp"
#include "cli/commands/all.hpp"
#include "cli/read/published.hpp"
#include "cli/show/screen_size.hpp"
#include "cli/top/background.hpp"
#include "cli/top/layout.hpp"
#include "cli/top/loop.hpp"
#include "cli/top/reader.hpp"

namespace stoker::cli {
namespace {

// Of a person who presses a key.
constexpr Duration kPatience = 300ms;

struct TopOptions {
  std::string run, page;
  bool once = false;
};

std::string environment_of(const Context& context, const std::string& name) {
  const auto found = context.environment.find(name);
  return found == context.environment.end() ? "" : found->second;
}

std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t last = text.rfind('\n');  // an answer stands behind what was noted on the way
  if (last != std::string::npos) text.erase(0, last + 1);
  return text.starts_with("stoker: ") ? text.substr(8) : text;
}

// The very command, as if it were typed, with its words caught.
top::Said act_as_typed(const Context& context, const std::vector<std::string>& words,
                       bool dry_run) {
  std::string out, err;
  Console caught([&out](std::string_view text) { out += text; },
                 [&err](std::string_view text) { err += text; });
  Context inner{caught, "", context.environment};
  std::vector<std::string> arguments = {words[0],
                                        "--state",
                                        context.state,
                                        "--color",
                                        "never",
                                        "--reason",
                                        "asked for in stoker top"};
  if (dry_run) arguments.emplace_back("--dry-run");
  arguments.emplace_back("--");
  arguments.insert(arguments.end(), words.begin() + 1, words.end());
  const int code = run(arguments, inner);
  return {code == kDone, one_line(code == kDone && !out.empty() ? out : err)};
}

int as_status(const Context& context, const std::string& run_name) {
  std::vector<std::string> arguments = {"status", "--state", context.state, "--color",
                                        context.console.color() ? "always" : "never"};
  if (!run_name.empty()) arguments.insert(arguments.end(), {"--", run_name});
  Context inner{context.console, "", context.environment};
  return run(arguments, inner);
}

Result<top::Selection> first_selection(const Context& context, const TopOptions& options) {
  top::Selection selection;
  if (options.run.empty()) return selection;
  STOKER_TRY(run, find_run(context.state, options.run));
  STOKER_TRY(published, published_runs(context.state));
  if (std::find(published.begin(), published.end(), run) == published.end())
    return fail("is not a run of " + context.state, options.run,
                "stoker status " + options.run + " shows it");
  selection.run = run.run;
  selection.page = top::Page::Why;
  for (int page = 1; page <= static_cast<int>(top::kLastPage); ++page)
    if (top::page_name(static_cast<top::Page>(page)) == options.page)
      selection.page = static_cast<top::Page>(page);
  return selection;
}

int print_once(const Context& context, const top::Selection& selection) {
  top::Reader reader(context.state);
  const ScreenSize size = screen_size(context.environment, STDOUT_FILENO);
  const top::View& view = reader.look(selection, wall_now());
  context.console.out(top::layout(view, selection, size.rows, size.columns).cells.text());
  return kDone;
}

int full_screen(const Context& context, const top::Selection& selection) {
  top::Background background(
      [reader = std::make_shared<top::Reader>(context.state)](const top::Selection& now) {
        return reader->look(now, wall_now());
      });
  const top::Wiring wiring{[&background](const top::Selection& now) -> const top::View& {
                             return background.look(now, wall_now(), kPatience);
                           },
                           [&context](const std::vector<std::string>& words, bool dry_run) {
                             return act_as_typed(context, words, dry_run);
                           }};
  int signal = 0;
  std::string trouble;
  {
    auto terminal = top::Terminal::open(environment_of(context, "TERM"), stdin, stdout,
                                        context.console.color());
    if (!terminal) return context.console.say(terminal.error().message()), kFailed;
    try {
      signal = top::show(**terminal, selection, wiring);
    } catch (const std::exception& error) {  // a library's: said on a terminal that is restored
      trouble = error.what();
    }
  }
  if (!trouble.empty()) return context.console.say("top ended by an error: " + trouble), kFailed;
  if (signal != 0) ::raise(signal);  // as any program that this signal ends
  return signal == 0 ? kDone : kFailed;
}

int run_top(const Context& context, const TopOptions& options) {
  const auto selection = first_selection(context, options);
  if (!selection) return context.console.say(selection.error().message()), kFailed;
  if (options.once) return print_once(context, *selection);
  const std::string why_not =
      top::Terminal::why_not(environment_of(context, "TERM"), STDIN_FILENO, STDOUT_FILENO);
  if (why_not.empty()) return full_screen(context, *selection);
  context.console.say("no full screen here (" + why_not + "); this is stoker status:");
  return as_status(context, options.run);
}

}  // namespace

Command cmd_top() {
  return {"top",
          "the full screen: all runs, worst first; Enter opens one, ? shows the keys",
          {"stoker top", "stoker top hello --page nodes", "stoker top --once"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<TopOptions>();
            auto* name = app.add_option("RUN", options->run, "open this run; default: all runs");
            app.add_option("--page", options->page,
                           "the page of RUN: why (default), nodes, logs, events, alerts, followers")
                ->type_name("NAME")
                ->check(CLI::IsMember({"why", "nodes", "logs", "events", "alerts", "followers"}))
                ->needs(name);
            app.add_flag("--once", options->once,
                         "print one screen as text, in the terminal's size or COLUMNS and LINES");
            return [&context, options] { return run_top(context, *options); };
          }};
}

}  // namespace stoker::cli
