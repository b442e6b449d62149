// Whose the sockets behind a port of this host are, as the kernel knows it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace stoker::os {

struct Endpoint {
  std::string address;  // as numbers
  unsigned port = 0;
};

// The uids of the sockets that listen where a connection to `server`, an address of this host,
// goes. Empty: none was found.
std::vector<unsigned> listeners_at(const Endpoint& server);
// The uid of the end at `server` of the connection from `ours`: of who accepted it, 0 while it
// waits for that.
std::vector<unsigned> holders_of(const Endpoint& server, const Endpoint& ours);

// The two ways in which these are found. By netlink the kernel is asked for the one socket, which
// takes no longer however many exist. Empty: no such socket, or no valid answer within a second.
std::optional<unsigned> ask_for_listener(const Endpoint& server);
std::optional<unsigned> ask_for_holder(const Endpoint& server, const Endpoint& ours);

// By the tables of all sockets, where netlink gives no answer.
struct SocketTables {
  std::string tcp = "/proc/net/tcp", tcp6 = "/proc/net/tcp6";
};
std::vector<unsigned> listeners_in(const SocketTables& tables, const Endpoint& server);
std::vector<unsigned> holders_in(const SocketTables& tables, const Endpoint& server,
                                 const Endpoint& ours);

}  // namespace stoker::os
