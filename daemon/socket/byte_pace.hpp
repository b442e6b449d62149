// How fast others than root and the daemon's user may send bytes: they are counted before they are
// read as a request, so that lines without end do not keep the loop busy.
#pragma once

#include <map>

#include "daemon/socket/line_server.hpp"

namespace stoker::daemon {

class BytePace {
 public:
  // Whether the loop reads a line of so many bytes now. Each user has 512 KiB, and 32 KiB more each
  // second; a line counts 512 bytes more than it has.
  bool takes(const Peer& peer, std::size_t bytes, Instant now);

 private:
  struct Pace {
    double left = 0;
    Instant at;
  };
  std::map<uid_t, Pace> paces_;
};

}  // namespace stoker::daemon
