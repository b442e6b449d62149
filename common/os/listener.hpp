// Who is at the other end of a connection to a port or a unix socket of this host. Every user may
// take a port that is free, as while its server is away, and gets what the next caller sends.
#pragma once

#include <optional>
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

// The first of them that is neither root's, our own nor a user's of the system (a uid below 1000).
std::optional<unsigned> stranger_of(const std::vector<unsigned>& users);

// "": root, we ourselves or a user of the system (a uid below 1000) listens at `server`, an address
// of this host, and the end there of our connection is not another user's, so that clear text may
// be sent. Else why not: another user has one of them, or it cannot be seen.
std::string why_not_trusted(const Endpoint& server, const SocketOwners& owners);

// Whether a connection to `address` ends on this host: loopback, the unspecified address (0.0.0.0,
// ::), or an address of one of its interfaces.
bool is_of_this_host(const sockaddr* address);

struct TrustedConnection {
  Fd socket;               // nothing is sent yet. None: it is not connected
  std::string distrust;    // why not, "" = the host refused or does not answer
  bool connected = false;  // it is already
};

// Connects to a port of this host whose server may get clear text. Another host: refused.
TrustedConnection connect_to_trusted(const sockaddr* address, socklen_t size);

// Who may get a request in clear text.
enum class Guard {
  Anyone,
  NoStrangerHere,  // on this host who is trusted; on other hosts anyone
  OnlyHere,        // on this host who is trusted; no other host
};

// Of a request by TLS: a proxy to which the environment gives a password (https_proxy=
// http://user:password@…) must be trusted where it is on this host; else Anyone.
Guard guard_of_proxy();

// The socket of a request; not connected yet, unless that was needed to see who has the port.
TrustedConnection open_socket(Guard guard, const sockaddr* address, socklen_t size, int type,
                              int protocol);

// Of a connected unix socket: who listens there was killed, but a thread of that process sleeps in
// the kernel (state D), so its sockets are still open. No answer will come.
bool is_served_by_dead(int connection);

}  // namespace stoker::os
