// exclude and include share all but their verb.
#include "cli/read/node_lists.hpp"

#include "common/hostlist.hpp"

namespace stoker::cli {

void add_node_options(CLI::App& app, NodeDeed& options, bool destructive) {
  app.add_option("NODE", options.lists, "nodes, also as hostlists: n[001-004,7]")->required();
  auto* reason = app.add_option(
      "--reason", options.deed.request.reason,
      destructive ? "why; stands in the journal and with the node. Asked for: without it \"no "
                    "reason given\" stands there"
                  : "why; stands in the journal and with the node");
  reason->type_name("TEXT");
  options.deed.wants_reason = destructive;
  app.add_flag("--dry-run", options.deed.request.dry_run, "show what would be done, do nothing");
  app.add_flag("--json", options.deed.json, "one JSON document");
}

int act_on_nodes(const Context& context, const std::string& verb, NodeDeed options) {
  options.deed.request.verb = verb;
  for (const std::string& list : options.lists) {
    const auto names = expand_hostlist(list);
    if (!names) return context.console.say(names.error().message()), kUsage;
    for (const NodeName& name : *names) options.deed.request.nodes.push_back(name.text);
  }
  if (!options.length.empty()) {
    const auto length = parse_duration(options.length);
    if (!length || *length <= Duration(0))
      return context.console.say("--for: expected a duration like 24h, got " +
                                 printable(options.length)),
             kUsage;
    options.deed.request.arguments["for"] = options.length;
  }
  return act(context, std::move(options.deed));
}

}  // namespace stoker::cli
