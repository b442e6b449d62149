// NodeList: the nodes of an allocation, as a value that costs nothing to copy. The decider keeps
// such lists in its state, which is copied with every step; with 2,048 nodes that was most of it.
// The list itself never changes, so copies share it.
#pragma once

#include <memory>
#include <vector>

#include "common/json.hpp"

namespace stoker {

class NodeList {
 public:
  using List = std::vector<NodeName>;

  NodeList() = default;
  NodeList(List nodes)  // NOLINT(google-explicit-constructor): it is one
      : nodes_(nodes.empty() ? nullptr : std::make_shared<const List>(std::move(nodes))) {}

  operator const List&() const { return list(); }  // NOLINT(google-explicit-constructor)
  [[nodiscard]] const List& list() const {
    static const List none;
    return nodes_ ? *nodes_ : none;
  }
  [[nodiscard]] bool empty() const { return !nodes_; }
  [[nodiscard]] std::size_t size() const { return list().size(); }
  [[nodiscard]] List::const_iterator begin() const { return list().begin(); }
  [[nodiscard]] List::const_iterator end() const { return list().end(); }
  [[nodiscard]] const NodeName& front() const { return list().front(); }
  const NodeName& operator[](std::size_t at) const { return list()[at]; }
  friend bool operator==(const NodeList& a, const NodeList& b) {
    return a.nodes_ == b.nodes_ || a.list() == b.list();
  }

 private:
  std::shared_ptr<const List> nodes_;  // never an empty list
};

inline void to_json(Json& j, const NodeList& nodes) {
  j = nodes.list();
}
inline void from_json(const Json& j, NodeList& nodes) {
  nodes = j.get<NodeList::List>();
}

}  // namespace stoker
