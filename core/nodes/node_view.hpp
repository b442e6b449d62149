// How a node is presented: to people, to programs, and to the site's administrators.
#pragma once

#include <string>
#include <vector>

#include "core/state.hpp"
#include "wire/status.hpp"

namespace stoker::core {

wire::PublishedNode published_node(const NodeName& name, const NodeEntry& entry, Instant now);
std::vector<wire::PublishedNode> nodes_of(const SiteState& state, Instant now);

// "ok", "excluded until 2026-05-02T00:00:00Z", "down; excluded until 2026-05-02T00:00:00Z".
std::string state_text(const wire::PublishedNode& node);

// A text to hand to the site's administrators: the node, its GPUs' serial numbers, the raw lines
// with their times, what is asked for. Lines of text, no markup.
std::string node_report(const wire::PublishedNode& node);

}  // namespace stoker::core
