#include "worker/agent/switch_patience.hpp"

namespace stoker::agent {

std::vector<SwitchSeen> SwitchPatience::due(const std::vector<SwitchSeen>& seen, Instant now) {
  std::map<Key, std::vector<const SwitchSeen*>> files;
  std::vector<Key> order;  // as they were seen: the owner's first
  for (const SwitchSeen& file : seen) {
    const Key key{file.verb, file.owner};
    if (files[key].empty()) order.push_back(key);
    files[key].push_back(&file);
  }
  std::erase_if(waiting_, [&files](const auto& entry) { return !files.contains(entry.first); });
  std::vector<SwitchSeen> due;
  for (const Key& key : order) {
    const Duration patience = key.first == "kill" ? kKillSwitchPatience : kSwitchPatience;
    Waiting& entry = waiting_.try_emplace(key, Waiting{now + patience, {}}).first->second;
    if (now < entry.from) continue;
    std::set<std::string> there;
    const SwitchSeen* next = nullptr;
    for (const SwitchSeen* file : files[key]) {
      const std::string which = file->name + "/" + file->identity;
      if (next == nullptr && !entry.done.contains(which)) next = file;
      there.insert(which);
    }
    if (next == nullptr) continue;
    due.push_back(*next);
    entry = {now + kSwitchPause, std::move(there)};
  }
  return due;
}

}  // namespace stoker::agent
