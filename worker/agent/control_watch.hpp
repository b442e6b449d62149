// Watches what people and the daemon want: control.json, and the switch files that the daemon has
// not taken away. A thread of its own (the run directory is on a network file system); inotify is a
// hint, polling every 200 ms is the truth; files are opened each time, never stat'ed by name.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "wire/control.hpp"

namespace stoker::agent {

struct SwitchSeen {
  std::string verb;      // "kill" | "stop" | "save"
  std::string identity;  // changes when another file has that name
  std::string by;        // who owns the file
  std::string reason;
};

struct ControlSink {                                  // called from the watcher's thread
  std::function<void(const wire::Control&)> control;  // whenever its content changed
  std::function<void(const SwitchSeen&)>
      left;  // a switch file that the daemon has not taken for a while
  std::function<void(const std::string&)> notice;
};

// How long a switch file may lie before the agent takes the daemon for silent.
inline constexpr Duration kKillSwitchPatience = 2s;
inline constexpr Duration kSwitchPatience = 4s;

class ControlWatch {
 public:
  ControlWatch(std::string run_directory, ControlSink sink);
  ~ControlWatch();
  ControlWatch(const ControlWatch&) = delete;
  ControlWatch& operator=(const ControlWatch&) = delete;

 private:
  std::shared_ptr<std::atomic<bool>> stop_;
};

// The control file now; empty when it is missing. Error: unreadable or malformed.
Result<std::optional<wire::Control>> read_control(const std::string& run_directory);

// A switch file that counts (watch/switch_folder.hpp): in the name of its owner, not of its text.
// Empty: none there. Error: there, but refused, with the reason.
Result<std::optional<SwitchSeen>> read_switch(const std::string& run_directory,
                                              const std::string& verb);

}  // namespace stoker::agent
