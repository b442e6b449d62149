// Nodes on the command line: hostlists, as SLURM writes them.
#pragma once

#include <string>
#include <vector>

#include "cli/acting.hpp"

namespace stoker::cli {

struct NodeDeed {
  Deed deed;
  std::vector<std::string> lists;
  std::string length;  // --for
};

// NODE..., --reason, --dry-run, --json.
void add_node_options(CLI::App& app, NodeDeed& options, bool destructive);

// Expands the lists, checks --for, asks the daemon.
int act_on_nodes(const Context& context, const std::string& verb, NodeDeed options);

}  // namespace stoker::cli
