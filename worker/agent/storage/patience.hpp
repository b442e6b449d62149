// Patience on a full disk: a start that cannot be written down is tried again while the job lasts.
// Giving up would burn the array's tasks one after the other until somebody makes room.
#pragma once

#include <cstdio>
#include <string>
#include <thread>

#include "common/os/room.hpp"
#include "common/printable.hpp"
#include "common/time.hpp"
#include "worker/agent/switch_process.hpp"

namespace stoker::agent {

// What `attempt` (a function that returns a Result or Status) gives; as long as that is "no room",
// it is called again, and stderr says once what is waited for. Ends with the failure when a kill or
// stop switch lies in the run directory.
template <class Attempt>
auto once_there_is_room(const std::string& run_directory, Attempt attempt, Duration pause = 2s)
    -> decltype(attempt()) {
  const auto switched_off = [&run_directory] {
    const auto seen = read_end_switch(run_directory);
    return seen && seen->has_value();
  };
  for (bool told = false;;) {
    auto done = attempt();
    if (done || !os::is_no_room(done.error()) || switched_off()) return done;
    if (!told) tell_stderr("stoker-agent: " + done.error().message() + ": waiting for room");
    told = true;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace stoker::agent
