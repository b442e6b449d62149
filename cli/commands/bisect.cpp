// stoker bisect RUN: which node makes a run slow: what is known, and what the next starts try.
#include <fmt/format.h>
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/read/published.hpp"
#include "cli/show/render_status.hpp"
#include "common/hostlist.hpp"

namespace stoker::cli {
namespace {

struct BisectOptions {
  std::string run;
  bool json = false;
};

std::string hosts(const std::vector<std::string>& names) {
  std::vector<NodeName> nodes;
  for (const std::string& name : names) nodes.emplace_back(name);
  return printable(compress_hostlist(std::move(nodes)));
}

std::string span(double s) {
  return s >= 0 && s < 1e9 ? format_duration(from_seconds(s)) : "?";
}

std::string change(const wire::StatusSlow& slow) {
  if (!slow.now)
    return fmt::format("as fast as before; the search of iteration {} goes on",
                       with_commas(slow.iteration));
  return fmt::format("since iteration {} an iteration takes {} instead of {} ({:+.1f} %)",
                     with_commas(slow.iteration), span(slow.step_s), span(slow.usual_s),
                     slow.usual_s > 0 ? 100 * (slow.step_s / slow.usual_s - 1) : 0);
}

std::string plan(const wire::StatusSlow& slow) {
  if (slow.next_out.empty())
    return "no node can be spared: scheduler.spares, or `stoker exclude`, gives the search room";
  return fmt::format("the next start goes without {}; at most {} more {} until one node is left",
                     hosts(slow.next_out), slow.starts_left,
                     slow.starts_left == 1 ? "start" : "starts");
}

void show(const Console& console, const wire::StatusSlow& slow) {
  const auto row = [&](const char* label, const std::string& text) {
    console.line(fmt::format("{:<10} {}", label, text));
  };
  row("change", change(slow));
  if (slow.node) row("node", printable(*slow.node) + " holds the rank that computes longest");
  if (!slow.suspects.empty()) {
    row("suspects",
        fmt::format("{} of {}: {}", slow.suspects.size(), slow.of, hosts(slow.suspects)));
    row("plan", plan(slow));
  }
  for (const wire::StatusBisectRound& r : slow.rounds)
    row("tried",
        fmt::format("iteration {}: without {} it was {}, {} left", with_commas(r.iteration),
                    r.out.empty() ? "none" : hosts(r.out), r.slow ? "slow" : "fast", r.left));
  if (slow.restart_cost_s && slow.restart_gain_s && slow.restart_chance)
    row("restart",
        fmt::format("a dedicated restart costs {} and gains {} on average (chance {:.0f} %): {}",
                    span(*slow.restart_cost_s), span(*slow.restart_gain_s),
                    100 * *slow.restart_chance,
                    *slow.restart_gain_s > *slow.restart_cost_s ? "it pays" : "it does not pay"));
}

int bisect(Context& context, const BisectOptions& options) {
  const Console& console = context.console;
  const auto run = find_run(context.state, options.run);
  if (!run) return console.say(run.error().message()), kFailed;
  const auto status = read_status(*run, note_daemon(context));
  if (!status) return console.say(status.error().message()), kFailed;
  if (options.json) {
    console.line(status->slow ? to_json_text(*status->slow) : "null");
  } else if (!status->slow) {
    console.line("no node is being searched for: " + printable(run->run) + " is as fast as usual");
  } else {
    show(console, *status->slow);
  }
  return kDone;
}

}  // namespace

Command cmd_bisect() {
  return {"bisect",
          "which node makes a run slow: suspects, what the next starts go without",
          {"stoker bisect hello", "stoker bisect hello --json"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<BisectOptions>();
            app.add_option("RUN", options->run, "name of a run or a run directory")->required();
            app.add_flag("--json", options->json, "one JSON document");
            return [&context, options] { return bisect(context, *options); };
          }};
}

}  // namespace stoker::cli
