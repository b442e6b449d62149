#include "common/os/listener.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <unistd.h>
#include <vector>

#include "common/os/own_files.hpp"
#include "common/os/process.hpp"

namespace stoker::os {
namespace {

constexpr unsigned kSystemUsers = 1000;  // below it: of the distribution, not of people
constexpr int kConnectMs = 1500;         // the kernel tries again after a second

const unsigned* stranger_of(const std::vector<unsigned>& uids) {
  const auto found = std::find_if(uids.begin(), uids.end(), [](unsigned uid) {
    return uid >= kSystemUsers && uid != ::geteuid();
  });
  return found == uids.end() ? nullptr : &*found;
}

Endpoint endpoint_of(const sockaddr* address, socklen_t size) {
  char host[NI_MAXHOST], port[NI_MAXSERV];  // NOLINT
  if (::getnameinfo(address, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return {};
  return {host, static_cast<unsigned>(std::strtoul(port, nullptr, 10))};
}

// A server on this host answers at once, unless its queue is full.
bool connects(int socket, const sockaddr* address, socklen_t size) {
  if (::connect(socket, address, size) == 0) return true;
  pollfd ready{socket, POLLOUT, 0};
  int error = 0;
  socklen_t length = sizeof error;
  return errno == EINPROGRESS && ::poll(&ready, 1, kConnectMs) == 1 &&
         ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
}

}  // namespace

std::string why_not_trusted(const Endpoint& server, const SocketOwners& owners) {
  const std::string where = fmt::format("{} port {}", server.address, server.port);
  if (!is_loopback(server.address))
    return "refused: " + where + " is not this host alone; nothing was sent";
  if (owners.listening.empty())
    return "refused: " + where + ": it cannot be seen who listens there; nothing was sent";
  if (const unsigned* stranger = stranger_of(owners.listening))
    return fmt::format("refused: {} listens on {}; nothing was sent", user_name_of(*stranger),
                       where);
  if (owners.taken.empty())
    return "refused: " + where + ": it cannot be seen who took the connection; nothing was sent";
  if (const unsigned* stranger = stranger_of(owners.taken))
    return fmt::format("refused: {} took the connection to {}; nothing was sent",
                       user_name_of(*stranger), where);
  return "";
}

TrustedConnection connect_to_trusted(const sockaddr* address, socklen_t size) {
  TrustedConnection made;
  const Endpoint server = endpoint_of(address, size);
  if (!is_loopback(server.address)) {  // before a word goes to another host
    made.distrust = why_not_trusted(server, {});
    return made;
  }
  Fd socket(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket || !connects(socket.get(), address, size)) return made;
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0) return made;
  SocketOwners owners;
  owners.listening = listeners_at(server);
  owners.taken = holders_of(server, endpoint_of(reinterpret_cast<sockaddr*>(&own), length));
  made.distrust = why_not_trusted(server, owners);
  if (made.distrust.empty()) made.socket = std::move(socket);
  return made;
}

TrustedConnection open_socket(bool guarded, const sockaddr* address, socklen_t size, int type,
                              int protocol) {
  if (guarded) return connect_to_trusted(address, size);
  return {Fd(::socket(address->sa_family, type | SOCK_CLOEXEC, protocol)), ""};
}

bool is_served_by_dead(int connection) {
  ucred server{};
  socklen_t size = sizeof server;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &server, &size) != 0) return false;
  const auto process = identify(server.pid);
  return process && !is_alive(*process);
}

}  // namespace stoker::os
