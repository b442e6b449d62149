// Warm standby: an initialised, idle process that becomes a rank at once (a LibTorch process needs
// 0.6 s to start). The agent starts the rank's command with STOKER_STANDBY_FD=<n>, a stream socket.
// The process initialises, writes the one byte 'R' (ready) and reads one line: the JSON of
// StandbyOrder. It then takes the order's environment as its own and goes on as the rank. End of
// file instead of a line: exit 0 quietly. Nothing else travels on the socket.
#pragma once

#include <map>
#include <string>

#include "common/json.hpp"

namespace stoker::wire {

inline constexpr char kStandbyReady = 'R';

struct StandbyOrder {
  int version = 1;
  std::map<std::string, std::string>
      environment;  // added to, and over, what the process was started with
  STOKER_FIELDS(StandbyOrder, version, environment)
};

}  // namespace stoker::wire
