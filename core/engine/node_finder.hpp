// What a scheduler may be able to do besides (ports.hpp): list its nodes when a person names some.
#pragma once

#include <set>
#include <vector>

#include "common/ids.hpp"
#include "common/result.hpp"

namespace stoker::core {

class NodeFinder {
 public:
  virtual ~NodeFinder() = default;
  // All nodes; what was heard before is enough when that has all of `asked`. Never empty. An error:
  // it cannot tell. Any thread; bounded by seconds, because a person waits.
  virtual Result<std::set<NodeName>> find_nodes(const std::vector<NodeName>& asked) = 0;
};

}  // namespace stoker::core
