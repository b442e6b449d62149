// Who is at the other end of a connection to a port or a unix socket of this host. Every user may
// take a port that is free, as while its server is away, and gets what the next caller sends.
#pragma once

#include <string>
#include <sys/socket.h>
#include <vector>

#include "common/os/fd.hpp"
#include "common/os/socket_owners.hpp"

namespace stoker::os {

// Whose sockets they are. `listening` is found before `taken`: who took the connection and gave the
// port back to its server since is found by his end of it.
struct SocketOwners {
  std::vector<unsigned> listening, taken;
};

// "": root, we ourselves or a user of the system (a uid below 1000) listens at `server`, and the
// end there of our connection is not another user's, so that clear text may be sent. Else why not:
// another user has one of them, it is no address of this host alone (127.0.0.0/8, ::1), or it
// cannot be seen.
std::string why_not_trusted(const Endpoint& server, const SocketOwners& owners);

struct TrustedConnection {
  Fd socket;             // nothing is sent yet. None: it is not connected
  std::string distrust;  // why not, "" = the host refused or does not answer
};

// Connects to a port of this host whose server may get clear text.
TrustedConnection connect_to_trusted(const sockaddr* address, socklen_t size);

// The socket of a request to anywhere, not connected yet; of one that is `guarded`, which sends
// clear text to this host, connect_to_trusted().
TrustedConnection open_socket(bool guarded, const sockaddr* address, socklen_t size, int type,
                              int protocol);

// Of a connected unix socket: who listens there was killed, but a thread of that process sleeps in
// the kernel (state D), so its sockets are still open. No answer will come.
bool is_served_by_dead(int connection);

}  // namespace stoker::os
