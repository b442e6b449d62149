#include "common/os/listener.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "common/os/own_files.hpp"
#include "common/os/process.hpp"

namespace stoker::os {
namespace {

constexpr unsigned kSystemUsers = 1000;  // below it: of the distribution, not of people
constexpr int kConnectMs = 1500;         // the kernel tries again after a second

Endpoint endpoint_of(const sockaddr* address, socklen_t size) {
  char host[NI_MAXHOST], port[NI_MAXSERV];  // NOLINT
  if (::getnameinfo(address, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return {};
  constexpr std::string_view kMapped = "::ffff:";  // IPv4 on a socket of IPv6
  std::string text = host;
  if (text.starts_with(kMapped) && text.find('.') != std::string::npos)
    text.erase(0, kMapped.size());
  return {text.substr(0, text.find('%')), static_cast<unsigned>(std::strtoul(port, nullptr, 10))};
}

Endpoint end_of(int socket, int (*which)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (which(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return endpoint_of(reinterpret_cast<sockaddr*>(&address), size);
}

// Of IPv4 as IPv6 has it. Empty: neither.
std::optional<in6_addr> as_six(const sockaddr* address) {
  in6_addr six{};
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET6)
    return reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  if (address->sa_family != AF_INET) return std::nullopt;
  six.s6_addr[10] = six.s6_addr[11] = 0xFF;
  std::memcpy(&six.s6_addr[12], &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
  return six;
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

std::optional<unsigned> stranger_of(const std::vector<unsigned>& users) {
  const auto found = std::find_if(users.begin(), users.end(), [](unsigned uid) {
    return uid >= kSystemUsers && uid != ::geteuid();
  });
  return found == users.end() ? std::nullopt : std::optional(*found);
}

std::string why_not_trusted(const Endpoint& server, const SocketOwners& owners) {
  const std::string where = fmt::format("{} port {}", server.address, server.port);
  if (owners.listening.empty())
    return "refused: " + where + ": it cannot be seen who listens there; nothing was sent";
  if (const auto stranger = stranger_of(owners.listening))
    return fmt::format("refused: {} listens on {}; nothing was sent", user_name_of(*stranger),
                       where);
  if (owners.taken.empty())
    return "refused: " + where + ": it cannot be seen who took the connection; nothing was sent";
  if (const auto stranger = stranger_of(owners.taken))
    return fmt::format("refused: {} took the connection to {}; nothing was sent",
                       user_name_of(*stranger), where);
  return "";
}

bool is_of_this_host(const sockaddr* address) {
  const auto six = as_six(address);
  if (!six) return false;
  const std::uint8_t* bytes = six->s6_addr;
  const bool mapped = IN6_IS_ADDR_V4MAPPED(&*six);
  const bool nowhere =
      IN6_IS_ADDR_UNSPECIFIED(&*six) ||
      (mapped && std::all_of(bytes + 12, bytes + 16, [](auto b) { return b == 0; }));
  if (nowhere || IN6_IS_ADDR_LOOPBACK(&*six) || (mapped && bytes[12] == 127)) return true;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return true;  // it may be: who listens is asked for
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, &::freeifaddrs);
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next)
    if (const auto own = as_six(one->ifa_addr); own && IN6_ARE_ADDR_EQUAL(&*own, &*six))
      return true;
  return false;
}

TrustedConnection connect_to_trusted(const sockaddr* address, socklen_t size) {
  TrustedConnection made;
  if (!is_of_this_host(address)) {  // before a word goes to another host
    const Endpoint server = endpoint_of(address, size);
    made.distrust = fmt::format("refused: {} port {} is not this host; nothing was sent",
                                server.address, server.port);
    return made;
  }
  Fd socket(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket || !connects(socket.get(), address, size)) return made;
  const Endpoint server = end_of(socket.get(), &::getpeername);
  SocketOwners owners;
  owners.listening = listeners_at(server);
  owners.taken = holders_of(server, end_of(socket.get(), &::getsockname));
  made.distrust = why_not_trusted(server, owners);
  made.connected = made.distrust.empty();
  if (made.connected) made.socket = std::move(socket);
  return made;
}

Guard guard_of_proxy() {
  for (const char* name : {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"})
    if (const char* proxy = std::getenv(name);
        proxy != nullptr && std::string_view(proxy).find('@') != std::string_view::npos)
      return Guard::NoStrangerHere;
  return Guard::Anyone;
}

TrustedConnection open_socket(Guard guard, const sockaddr* address, socklen_t size, int type,
                              int protocol) {
  if (guard == Guard::OnlyHere || (guard == Guard::NoStrangerHere && is_of_this_host(address)))
    return connect_to_trusted(address, size);
  return {Fd(::socket(address->sa_family, type | SOCK_CLOEXEC, protocol)), "", false};
}

bool is_served_by_dead(int connection) {
  ucred server{};
  socklen_t size = sizeof server;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &server, &size) != 0) return false;
  const auto process = identify(server.pid);
  return process && !is_alive(*process);
}

}  // namespace stoker::os
