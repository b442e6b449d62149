// stoker status [RUN] [--watch]: one block a run, or the published document as JSON.
#include <algorithm>
#include <memory>
#include <thread>
#include <unistd.h>

#include "cli/commands/all.hpp"
#include "cli/doctor/failing_sinks.hpp"
#include "cli/read/published.hpp"
#include "cli/show/fold.hpp"
#include "cli/show/render_status.hpp"
#include "cli/show/watch_screen.hpp"
#include "cli/top/run_order.hpp"

namespace stoker::cli {
namespace {

constexpr const char* kNoRuns = "no runs; `stoker run RUN.yaml` puts one under supervision\n";

struct StatusOptions {
  std::string run;
  bool json = false, watch = false;
};

// The runs asked for; false after an error that was reported.
bool collect(Context& context, const StatusOptions& options,
             std::vector<wire::StatusDocument>& out) {
  std::vector<wire::SiteRun> runs;
  if (!options.run.empty()) {
    auto run = find_run(context.state, options.run);
    if (!run) return context.console.say(run.error().message()), false;
    runs.push_back(*std::move(run));
  } else {
    auto all = published_runs(context.state);
    if (!all) return context.console.say(all.error().message()), false;
    runs = *std::move(all);
  }
  const Reach reach = note_daemon(context);
  bool good = true;
  for (const wire::SiteRun& run : runs) {
    auto status = read_status(run, reach);
    if (status) {
      out.push_back(*std::move(status));
    } else {
      context.console.say(status.error().message());
      good = false;
    }
  }
  return good;
}

std::string render(const Context& context, const wire::StatusDocument& d) {
  std::string text = render_status(d, wall_now(), context.console);
  if (const auto sinks = failing_sinks(context.state))
    for (const wire::FailingSink& sink : *sinks)
      if (sink.run == d.run)
        text +=
            "  " + context.console.paint(Ink::Red, "alerts") + "      " + failing_line(sink) + "\n";
  return text;
}

std::string render(const Context& context, const std::vector<wire::StatusDocument>& documents) {
  std::string text;
  for (const wire::StatusDocument& d : documents) {
    if (!text.empty()) text += "\n";
    text += render(context, d);
  }
  return text;
}

bool is_set(const Context& context, const std::string& name) {
  const auto found = context.environment.find(name);
  return found != context.environment.end() && !found->second.empty();
}

// On a terminal, or where the environment gives a size: one screen, the worst run first. Else all.
void draw(const Context& context, std::vector<wire::StatusDocument> documents) {
  const auto term = context.environment.find("TERM");
  const bool dumb = term == context.environment.end() || term->second == "dumb";
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  if (!terminal && !is_set(context, "COLUMNS") && !is_set(context, "LINES"))
    return context.console.out(render(context, documents) + "\n");
  std::stable_sort(documents.begin(), documents.end(),
                   [](const auto& a, const auto& b) { return top::badness(a) > top::badness(b); });
  std::vector<std::string> blocks;
  for (const wire::StatusDocument& d : documents) blocks.push_back(render(context, d));
  if (blocks.empty()) blocks.emplace_back(kNoRuns);
  context.console.out((terminal && !dumb ? "\033[H\033[2J" : "") +
                      watch_screen(blocks, screen_size(context.environment, STDOUT_FILENO)));
}

bool is_over(const std::vector<wire::StatusDocument>& documents) {
  return !documents.empty() &&
         std::all_of(documents.begin(), documents.end(), [](const wire::StatusDocument& d) {
           return d.state == "finished" || d.state == "stopped";
         });
}

// Redraws every two seconds until the runs are over (or Ctrl-C).
int watch(Context& context, const StatusOptions& options) {
  for (;;) {
    std::vector<wire::StatusDocument> documents;
    const bool good = collect(context, options, documents);
    if (options.json) {
      for (const wire::StatusDocument& d : documents) context.console.line(to_json_text(d));
    } else {
      draw(context, documents);
    }
    if (!good || is_over(documents)) return good ? kDone : kFailed;
    std::this_thread::sleep_for(2s);
  }
}

int status(Context& context, const StatusOptions& options) {
  if (options.watch) return watch(context, options);
  std::vector<wire::StatusDocument> documents;
  const bool good = collect(context, options, documents);
  if (options.json) {
    if (options.run.empty())
      context.console.line(to_json_text(documents));
    else if (!documents.empty())
      context.console.line(to_json_text(documents[0]));
  } else if (documents.empty() && good) {
    context.console.out(kNoRuns);
  } else {
    context.console.out(for_terminal(context, render(context, documents)));
  }
  return good ? kDone : kFailed;
}

}  // namespace

Command cmd_status() {
  return {"status",
          "one block a run: state, why, progress, loss, checkpoint, ETA, budget, alerts",
          {"stoker status hello", "stoker status --json", "stoker status hello --watch"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<StatusOptions>();
            app.add_option("RUN", options->run, "name of a run or a run directory; default: all");
            app.add_flag("--json", options->json,
                         "one JSON document (an array without RUN; lines with --watch)");
            app.add_flag("--watch,-w", options->watch, "redraw every two seconds");
            return [&context, options] { return status(context, *options); };
          }};
}

}  // namespace stoker::cli
