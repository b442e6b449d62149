// stoker logs RUN: the end of the newest generation's log, then what is written from there on.
#include <fmt/format.h>
#include <memory>
#include <thread>

#include "cli/commands/all.hpp"
#include "cli/read/log_follow.hpp"
#include "cli/read/published.hpp"
#include "common/hostlist.hpp"

namespace stoker::cli {
namespace {

constexpr Duration kLook = 200ms;

struct LogsOptions {
  std::string run, nodes, ranks;
  std::uint64_t last = 100;
  bool follow = false, json = false;
};

// {"generation","node","rank","text"}; node and rank where the line has them.
Json as_json(const LogLine& line) {
  Json out{{"generation", std::string(line.generation)}};
  if (!line.node.empty()) out["node"] = std::string(line.node);
  if (line.rank) out["rank"] = *line.rank;
  out["text"] = std::string(line.text);
  return out;
}

Result<LogFilter> filter_of(const LogsOptions& options) {
  LogFilter filter;
  if (!options.ranks.empty()) {
    STOKER_TRY(ranks, parse_ranks(options.ranks));
    filter.ranks = std::move(ranks);
  }
  if (options.nodes.empty()) return filter;
  STOKER_TRY(nodes, expand_hostlist(options.nodes));
  for (const NodeName& node : nodes) filter.nodes.insert(node.text);
  return filter;
}

int logs(Context& context, const LogsOptions& options) {
  const Console& console = context.console;
  auto filter = filter_of(options);
  if (!filter) return console.say(filter.error().message()), kUsage;
  const auto run = find_run(context.state, options.run);
  if (!run) return console.say(run.error().message()), kFailed;
  LogFollow follow(run->directory, std::move(*filter));
  const auto show = [&](const LogLine& line) {
    if (options.json)
      console.line(dump_json(as_json(line)));
    else if (follow.several() && line.rank)
      console.line(fmt::format("[{}] {}", *line.rank, printable(line.text)));
    else
      console.line(printable(line.whole));
  };
  const auto begun = follow.last(options.last, !options.follow, show);
  if (!begun && !options.follow) return console.say(begun.error().message()), kFailed;
  if (!options.follow) return kDone;
  if (!begun) console.say(fmt::format("{}; waiting", begun.error().message()));
  for (;;) {
    std::this_thread::sleep_for(kLook);
    if (const auto read = follow.more(show); !read)
      return console.say(read.error().message()), kFailed;
  }
}

}  // namespace

Command cmd_logs() {
  return {
      "logs",
      "the training's output: the end of it, and on from there",
      {"stoker logs hello -n 50", "stoker logs hello -f --rank 3",
       "stoker logs hello -f --node 'n[01-04]' --json"},
      [](CLI::App& app, Context& context) -> Action {
        const auto options = std::make_shared<LogsOptions>();
        app.add_option("RUN", options->run, "name of a run or a run directory")->required();
        app.add_flag("-f,--follow", options->follow, "go on with what is new, until Ctrl-C");
        app.add_option("-n,--lines", options->last, "how many lines (default 100)")->type_name("N");
        app.add_option("--rank", options->ranks, "only these ranks: 3, or 0-7,16")->type_name("R");
        app.add_option("--node", options->nodes, "only these nodes: n01, or n[01-04]")
            ->type_name("N");
        app.add_flag("--json", options->json, "JSON lines: generation, node, rank, text");
        return [&context, options] { return logs(context, *options); };
      }};
}

}  // namespace stoker::cli
