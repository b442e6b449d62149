// The memory of a node for snapshots of its ranks and of its partner's (checkpoint.memory): slots
// that outlive the ranks and end with this agent. Empty ones cost nothing: a rank gives its slots
// their size.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/os/fd.hpp"
#include "wire/node_messages.hpp"

namespace stoker::agent {

class NodeMemory {
 public:
  // Paths of the slots of the node's rank `local`, as in STOKER_MEMORY. Error: none can be made.
  Result<std::string> slots_of(std::uint32_t local);
  [[nodiscard]] std::uint32_t complete() const;  // slots with a whole snapshot

  // Those of this generation whose content is what was written; reads all of it. For a thread.
  using Slots = std::vector<std::shared_ptr<const os::Fd>>;
  [[nodiscard]] const Slots& slots() const { return slots_; }
  static wire::SnapshotsHeld look(const Slots& slots, Generation generation);

 private:
  Slots slots_;
};

}  // namespace stoker::agent
