// Watches what people and the daemon want: control.json, and the switch files that the daemon has
// not taken away. Two threads (the run directory is on a network file system, and a colleague can
// lock switch/): no look at switch/ keeps control.json waiting. inotify is a hint, polling every
// 200 ms is the truth; files are opened each time, never stat'ed by name.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "wire/control.hpp"
#include "worker/agent/switch_look.hpp"

namespace stoker::agent {

struct ControlSink {                                  // called from the watcher's threads
  std::function<void(const wire::Control&)> control;  // whenever its content changed
  std::function<void(const SwitchSeen&)>
      left;  // a switch file that the daemon has not taken for a while
  std::function<void(const std::string&)> notice;
};

// A look at switch/ of a run directory; it may never return.
using LookAtSwitches = std::function<Result<SwitchLook>(const std::string& run_directory)>;

// How long a look at switch/ may take before a notice says so.
inline constexpr Duration kStuckLook = 10s;

class ControlWatch {
 public:
  // `look`: empty: by the process of the agent (switch_process.hpp).
  ControlWatch(std::string run_directory, ControlSink sink, LookAtSwitches look = {},
               Duration stuck_after = kStuckLook);
  ~ControlWatch();
  ControlWatch(const ControlWatch&) = delete;
  ControlWatch& operator=(const ControlWatch&) = delete;

 private:
  std::shared_ptr<std::atomic<bool>> stop_;
};

// The control file now; empty when it is missing. Error: unreadable or malformed.
Result<std::optional<wire::Control>> read_control(const std::string& run_directory);

}  // namespace stoker::agent
