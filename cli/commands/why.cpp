// stoker why [RUN] [--last N]: the last decisions, each with the sentence that was its reason.
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/read/event_file.hpp"
#include "cli/read/published.hpp"
#include "cli/show/fold.hpp"
#include "cli/show/plain_words.hpp"

namespace stoker::cli {
namespace {

struct WhyOptions {
  std::string run;
  std::size_t last = 5;
  bool json = false;
};

std::string render(const Console& console, const wire::PublishedEvent& e) {
  std::string text = printable(e.time) + "  ";
  const std::string event = printable(event_words(e.kind));
  text += e.decision.empty() ? event : console.paint(Ink::Bold, printable(e.decision));
  text += "\n    because " + printable(e.reason) + "\n    event   #" + std::to_string(e.seq) +
          ", " + event + "\n";
  for (const std::string& action : e.actions)
    text += "    action  " + printable(action_words(action)) + "\n";
  return text;
}

int why(Context& context, const WhyOptions& options) {
  const Console& console = context.console;
  auto opened = open_events(context, options.run);
  if (!opened) return console.say(opened.error().message()), kFailed;
  auto& [run, file] = *opened;
  const auto found = file.newest(options.last, is_decision);
  if (!found) return console.say(found.error().message()), kFailed;
  if (options.json) {
    console.line(to_json_text(*found));
  } else if (found->empty()) {
    console.line("nothing was decided yet");
  } else {
    for (const wire::PublishedEvent& e : *found)
      console.out(for_terminal(context, render(console, e)));
  }
  return kDone;
}

}  // namespace

Command cmd_why() {
  return {"why",
          "the last decisions with their reasons and evidence",
          {"stoker why hello", "stoker why hello --last 20 --json"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<WhyOptions>();
            app.add_option("RUN", options->run, "name of a run or a run directory");
            app.add_option("--last", options->last, "how many (default 5)")->type_name("N");
            app.add_flag("--json", options->json, "one JSON array");
            return [&context, options] { return why(context, *options); };
          }};
}

}  // namespace stoker::cli
