// Who we are in the allocation, read once from the command line and the scheduler's environment
// (SLURM, or the embedded scheduler in the same terms). Without a scheduler: one node, stand-alone.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/result.hpp"
#include "common/time.hpp"

namespace stoker::agent {

struct RunOptions {
  std::string run_directory;
  std::string generation = "auto";  // or a number
  std::string node;
  std::optional<std::uint32_t> ranks_per_node, spares;
  std::vector<std::string> command;  // empty: the orders' one
};

struct RunContext {
  std::string run_directory;  // absolute
  RunName run;
  NodeName node, lead;
  std::vector<NodeName> nodes;  // of the allocation
  std::map<NodeName, std::string> addresses;
  Token token;
  JobId job;
  std::uint32_t task = 0, restart = 0;
  std::optional<OrderNumber> order;      // that was current at submission
  std::optional<Generation> generation;  // asked for with --generation
  std::optional<WallTime> end;           // the array task's wall, where known
  bool standalone = false;
  [[nodiscard]] bool is_lead() const { return node == lead; }
  [[nodiscard]] std::string address_of(const NodeName& name) const;
};

// Errors: contradictions between the flags and the environment (our node is not in the node list),
// malformed lists.
Result<RunContext> read_context(const RunOptions& options,
                                const std::map<std::string, std::string>& environment);

// "n01=127.0.0.1,n02=10.0.0.2"
Result<std::map<NodeName, std::string>> parse_addresses(const std::string& text);

}  // namespace stoker::agent
