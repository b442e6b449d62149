// stoker nodes [RUN]: the node ledger as the daemon published it.
#include <algorithm>
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/published.hpp"
#include "common/hostlist.hpp"
#include "slurm/drain_proposal.hpp"

namespace stoker::cli {
namespace {

struct NodesOptions {
  std::string run;
  bool json = false, drain = false;
};

// For an administrator to paste: a line a node that is excluded for evidence. The newest evidence
// is the last.
int propose(const Console& console, const std::vector<wire::PublishedNode>& nodes) {
  bool any = false;
  for (const wire::PublishedNode& n : nodes) {
    if (n.state != "excluded" || n.evidence.empty()) continue;
    const auto line = slurm::drain_command(NodeName(n.node), n.evidence.back());
    if (!line) {
      console.say(line.error().message());
      continue;
    }
    any = true;
    console.line(printable(*line));
  }
  if (!any) console.say("no node is excluded");
  return kDone;
}

// Nodes that have the same to tell share a line: "n[001-128]  ok".
void show(const Console& console, const std::vector<wire::PublishedNode>& nodes) {
  std::map<std::string, std::vector<NodeName>> alike;
  for (const wire::PublishedNode& n : nodes) {
    std::string text = printable(n.state);
    if (n.excluded_until) text += " until " + printable(*n.excluded_until);
    for (const std::string& line : n.evidence) text += "\n    " + printable(line);
    alike[text].emplace_back(n.node);
  }
  for (auto& [text, names] : alike)
    console.line(console.paint(Ink::Bold, printable(compress_hostlist(names))) + "  " + text);
}

int nodes(Context& context, const NodesOptions& options) {
  const Console& console = context.console;
  auto all = published_nodes(context.state);
  if (!all) return console.say(all.error().message()), kFailed;
  std::vector<wire::PublishedNode> chosen = *std::move(all);
  const Reach reach = note_daemon(context);
  if (!options.run.empty()) {
    const auto run = find_run(context.state, options.run);
    if (!run) return console.say(run.error().message()), kFailed;
    const auto status = read_status(*run, reach);
    if (!status) return console.say(status.error().message()), kFailed;
    std::erase_if(chosen, [&](const wire::PublishedNode& n) {
      return std::find(status->nodes.begin(), status->nodes.end(), n.node) == status->nodes.end();
    });
  }
  if (options.drain) return propose(console, chosen);
  if (options.json)
    for (const wire::PublishedNode& n : chosen) console.line(to_json_text(n));
  else if (chosen.empty())
    console.line("no nodes are known");
  else
    show(console, chosen);
  return kDone;
}

}  // namespace

Command cmd_nodes() {
  return {"nodes",
          "what is known of the nodes: state, exclusion, evidence",
          {"stoker nodes", "stoker nodes hello --json", "stoker nodes --drain"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<NodesOptions>();
            app.add_option("RUN", options->run, "only the nodes that this run has now");
            auto* json = app.add_flag("--json", options->json, "JSON lines");
            app.add_flag("--drain", options->drain,
                         "the commands by which an administrator drains what is excluded here")
                ->excludes(json);
            return [&context, options] { return nodes(context, *options); };
          }};
}

}  // namespace stoker::cli
