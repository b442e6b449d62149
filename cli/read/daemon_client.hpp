// The command line's end of the daemon's control socket (wire/socket.hpp): one line asked, one line
// answered, with a deadline over the whole of it. A daemon that is away is no error of the request:
// the caller falls back to what was published, or to a switch file.
#pragma once

#include <string>

#include "common/time.hpp"
#include "wire/socket.hpp"

namespace stoker::cli {

enum class Reach {
  Answered,
  Away,    // no listener: no daemon with this state directory on this host
  Barred,  // it listens, but this user may not talk to it
  Stuck,   // it answers, but cannot write its journal, so it does nothing
  Busy,    // it listens, but had no room for this request until the deadline: nothing was done
  Silent   // it listens, but did not answer in time: whether it acted is not known
};

struct Answer {
  Reach reach = Reach::Away;
  wire::Response response;  // Answered only
  std::string why;          // a sentence for the others
};

// The socket must be served by the owner of the state directory, by root or by this user. Anybody
// else who listens there is not talked to (Barred). A busy daemon is asked again until the
// deadline.
Answer ask_daemon(const std::string& state, const wire::Request& request, Duration limit = 5s);

// Whether a daemon looks after this state directory: a ping with a short limit, so that reading
// commands stay fast. `trouble`: why it is stuck.
Reach daemon_reach(const std::string& state, std::string* trouble = nullptr);

}  // namespace stoker::cli
