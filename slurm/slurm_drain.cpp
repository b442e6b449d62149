// Nodes by name: drains with permission, and names that a person gave. A node to drain is
// checked first: what is out of service already, or carries somebody else's note ("Kill task
// failed", a health check's), is left as it is.
#include <algorithm>
#include <fmt/format.h>

#include "slurm/client_call.hpp"
#include "slurm/drain_proposal.hpp"
#include "slurm/node_states.hpp"
#include "slurm/slurm_scheduler.hpp"

namespace stoker::slurm {
namespace {

constexpr Duration kPersonWaits = 10s;

std::string left_alone(const std::string& why) {
  return "left as it is: " + why;
}

// Why nothing is to be done; empty: something is.
std::string why_not(const core::DrainNode& drain, const core::NodeSeen& seen) {
  const bool ours = seen.reason.starts_with(core::DrainNode::kNote);
  const bool drained = is_drained(seen.state);
  const std::string now =
      fmt::format("it is {}{}", seen.state, seen.reason.empty() ? "" : ": " + seen.reason);
  if (drain.lift) return drained && ours ? "" : left_alone(now);
  if (drained && ours) return "drained";
  return seen.usable ? "" : left_alone(now);
}

}  // namespace

core::PortResult<std::string> SlurmScheduler::drain(const core::DrainNode& drain) {
  const auto arguments =
      drain.lift ? undrain_arguments(drain.node) : drain_arguments(drain.node, drain.why);
  if (!arguments) return left_alone(arguments.error().message());
  const auto unproven = [](const Error& error) {
    return core::PortError{error, core::Certainty::Definite};
  };
  const auto nodes = controller_->nodes(drain.node.text, {});
  if (!nodes) return unproven(nodes.error());
  const auto seen = std::find_if(nodes->begin(), nodes->end(), [&](const core::NodeSeen& node) {
    return node.node == drain.node;
  });
  if (seen == nodes->end()) return left_alone("SLURM does not know it");
  if (const std::string why = why_not(drain, *seen); !why.empty()) return why;
  const auto output = controller_->act(*arguments);
  if (!output) return core::PortError{output.error(), core::Certainty::Unknown};
  if (output->status.ok()) return std::string(drain.lift ? "back in service" : "drained");
  core::PortError error{{what_it_said(*output), "scontrol", ""}, core::Certainty::Definite};
  if (says_no_right(output->err)) error.by_hand = pasteable(*arguments);
  return error;
}

Result<std::set<NodeName>> SlurmScheduler::find_nodes(const std::vector<NodeName>& asked) {
  {
    const std::scoped_lock lock(mutex_);
    if (!nodes_.empty() && std::all_of(asked.begin(), asked.end(), [this](const NodeName& node) {
          return nodes_.contains(node);
        }))
      return nodes_;
  }
  STOKER_TRY(seen, controller_->nodes("", std::min(options_.deadline, kPersonWaits)));
  std::set<NodeName> names;
  for (const core::NodeSeen& node : seen) names.insert(node.node);
  if (names.empty()) return fail("SLURM names no node", "sinfo");
  const std::scoped_lock lock(mutex_);
  nodes_ = names;
  return names;
}

}  // namespace stoker::slurm
