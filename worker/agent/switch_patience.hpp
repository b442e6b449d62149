// When the agent obeys a switch file itself: once a file of that verb has lain for a while, it
// takes the daemon for silent. Each author waits alone, from the first sight of such a file of his:
// what a colleague does to his own file, or to one of the owner's that he may write, delays no
// order.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "worker/agent/switch_look.hpp"

namespace stoker::agent {

class SwitchPatience {
 public:
  // `seen`: all files of one look. Returns the orders that are due, each file once: again only if
  // it changed, and of one author and verb at most one in kSwitchPause.
  std::vector<SwitchSeen> due(const std::vector<SwitchSeen>& seen, Instant now);

 private:
  struct Waiting {
    Instant from{};  // when the next order is due
    std::set<std::string> done;
  };
  using Key = std::pair<std::string, std::uint32_t>;  // verb and author
  std::map<Key, Waiting> waiting_;
};

}  // namespace stoker::agent
