// switch/ of a run as an agent reads it while the daemon is silent: each file that counts
// (watch/switch_folder.hpp), in the name of its owner, not of its text. Members of the run's group
// write there, and a member can lock the folder: who looks then sleeps in the kernel until the
// member lets go, and not even SIGKILL ends each such sleep. So an agent has a process look
// (switch_process.hpp), never one of its own threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/time.hpp"

namespace stoker::agent {

struct SwitchSeen {
  std::string verb;  // "kill" | "stop" | "save"
  std::string name;  // of the file: "KILL"
  std::uint32_t owner = 0;
  std::string identity;  // changes when another file has that name, or it is written again
  std::string by;        // who owns the file
  std::string reason;
  STOKER_FIELDS(SwitchSeen, verb, name, owner, identity, by, reason)
};

struct SwitchRefused {
  std::string verb, why;
  STOKER_FIELDS(SwitchRefused, verb, why)
};

struct SwitchLook {
  std::vector<SwitchSeen>
      seen;  // kill, stop, save; of each verb the run's owner's and root's first
  std::vector<SwitchRefused> refused;
  STOKER_FIELDS(SwitchLook, seen, refused)

  // The first file of this verb that counts. Empty: none there. Error: there, but refused.
  [[nodiscard]] Result<std::optional<SwitchSeen>> find(const std::string& verb) const;
};

// In the calling thread. Without the folder: nothing is seen. Error: the folder is refused.
Result<SwitchLook> look_at_switches(const std::string& run_directory);

// How long a switch file may lie before the agent takes the daemon for silent.
inline constexpr Duration kKillSwitchPatience = 2s;
inline constexpr Duration kSwitchPatience = 4s;
inline constexpr Duration kSwitchPause = 6s;  // between two orders of one author and verb

}  // namespace stoker::agent
