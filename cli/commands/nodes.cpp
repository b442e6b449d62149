// stoker nodes [RUN]: the node ledger as the daemon published it.
#include <algorithm>
#include <fmt/format.h>
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/read/published.hpp"
#include "cli/show/render_status.hpp"
#include "common/hostlist.hpp"
#include "core/nodes/node_view.hpp"
#include "slurm/drain_proposal.hpp"

namespace stoker::cli {
namespace {

struct NodesOptions {
  std::string run, report;
  bool json = false, drain = false;
};

// For an administrator to paste: a line a node that is excluded for evidence. The newest evidence
// is the last.
int propose(const Console& console, const std::vector<wire::PublishedNode>& nodes) {
  bool any = false;
  for (const wire::PublishedNode& n : nodes) {
    if (n.state != "excluded" || n.evidence.empty()) continue;
    const auto arguments = slurm::drain_arguments(NodeName(n.node), n.evidence.back());
    if (!arguments) {
      console.say(arguments.error().message());
      continue;
    }
    any = true;
    console.line(printable(slurm::pasteable(*arguments)));
  }
  if (!any) console.say("no node is excluded");
  return kDone;
}

int report(const Console& console, const std::vector<wire::PublishedNode>& nodes,
           const std::string& name) {
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const wire::PublishedNode& n) { return n.node == name; });
  if (found == nodes.end()) {
    console.say(printable(name) +
                ": nothing is known of this node; `stoker nodes` lists those of "
                "which something is");
    return kFailed;
  }
  const std::string text = core::node_report(*found);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    console.line(printable(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return kDone;
}

// How long the nodes last, a line a run; and how often evidence was wrong.
void show_spares(const Context& context, Reach reach, const std::string& only) {
  const auto runs = published_runs(context.state);
  if (!runs) return;
  for (const wire::SiteRun& run : *runs) {
    if (!only.empty() && run.run != only) continue;
    const auto status = read_status(run, reach);
    if (status && status->spares)
      context.console.line(printable(run.run) + ": " + spares_line(*status->spares));
  }
}

// Nodes that have the same to tell share a line: "n[001-128]  ok".
void show(const Console& console, const std::vector<wire::PublishedNode>& nodes) {
  std::map<std::string, std::vector<NodeName>> alike;
  for (const wire::PublishedNode& n : nodes) {
    std::string text = printable(core::state_text(n));
    if (n.parole) text += ", on parole";
    for (const std::string& line : n.evidence) text += "\n    " + printable(line);
    for (const wire::PublishedGpu& gpu : n.gpus)
      text += fmt::format("\n    GPU {} serial {} {}: score {:.2f}", printable(gpu.pci),
                          gpu.serial.empty() ? "unknown" : printable(gpu.serial),
                          printable(gpu.uuid), gpu.score);
    if (n.score > 0)
      text += fmt::format(
          "\n    suspicion score {:.2f} (2 excludes), excluded for evidence: {}, of these false: "
          "{}",
          n.score, n.accused, n.falsely);
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
  if (!options.report.empty()) return report(console, chosen, options.report);
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
  if (!options.json) show_spares(context, reach, options.run);
  return kDone;
}

}  // namespace

Command cmd_nodes() {
  return {"nodes",
          "what is known of the nodes: state, exclusion, evidence",
          {"stoker nodes", "stoker nodes hello --json", "stoker nodes --drain",
           "stoker nodes --report n052"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<NodesOptions>();
            app.add_option("RUN", options->run, "only the nodes that this run has now");
            auto* json = app.add_flag("--json", options->json, "JSON lines");
            app.add_flag("--drain", options->drain,
                         "the commands by which an administrator drains what is excluded here")
                ->excludes(json);
            app.add_option("--report", options->report,
                           "a text for the site's administrators: GPU serial, raw lines, times")
                ->type_name("NODE")
                ->excludes(json);
            return [&context, options] { return nodes(context, *options); };
          }};
}

}  // namespace stoker::cli
