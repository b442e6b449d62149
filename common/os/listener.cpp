// The rows of the kernel's table: "0: 0100007F:1AA4 00000000:0000 0A 00000000:00000000 00:00000000
// 00000000 1000 …": the addresses and ports of both ends in hexadecimal, the state (0A = listens),
// then the uid: of who made the socket or accepted the connection; 0 while it waits to be accepted.
#include "common/os/listener.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sstream>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "common/os/files.hpp"
#include "common/os/own_files.hpp"

namespace stoker::os {
namespace {

constexpr unsigned kSystemUsers = 1000;  // below it: of the distribution, not of people
constexpr std::string_view kListens = "0A";
constexpr std::size_t kLongestTable = 64u << 20;
constexpr int kConnectMs = 500;

// As the kernel prints it: each word of four bytes as a number of this machine.
std::string hexadecimal(const void* bytes, std::size_t words) {
  std::string text;
  for (std::size_t i = 0; i < words; ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, static_cast<const char*>(bytes) + 4 * i, 4);
    text += fmt::format("{:08X}", word);
  }
  return text;
}

// As the table has it: the addresses that stand for this one, in tcp and in tcp6.
struct Written {
  std::vector<std::string> four, six;
};

// Empty: it is no address of this host alone.
Written written(const Endpoint& at, bool listening) {
  in_addr four{};
  in6_addr six{};
  Written all;
  if (::inet_pton(AF_INET, at.address.c_str(), &four) == 1) {
    if ((ntohl(four.s_addr) >> 24) != 127) return all;
    six.s6_addr[10] = six.s6_addr[11] = 0xFF;  // as a server for both families sees it
    std::memcpy(&six.s6_addr[12], &four, sizeof four);
    all.four.push_back(hexadecimal(&four, 1));
    all.six.push_back(hexadecimal(&six, 4));
  } else if (::inet_pton(AF_INET6, at.address.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six)) {
    all.six.push_back(hexadecimal(&six, 4));
  } else {
    return all;
  }
  if (listening && !all.four.empty()) all.four.emplace_back(8, '0');
  if (listening) all.six.emplace_back(32, '0');
  for (auto* family : {&all.four, &all.six})
    for (std::string& one : *family) one += fmt::format(":{:04X}", at.port);
  return all;
}

// The uids of the sockets with these ends. No `remote`: of those that listen.
std::vector<unsigned> owners(const std::string& table, const std::vector<std::string>& local,
                             const std::vector<std::string>* remote) {
  const auto is_one = [](const std::vector<std::string>& all, const std::string& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  std::vector<unsigned> uids;
  std::istringstream lines(table);
  std::string line;
  std::getline(lines, line);  // the names of the columns
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string number, here, there, state, skipped;
    unsigned uid = 0;
    words >> number >> here >> there >> state;
    if (!is_one(local, here)) continue;
    if (remote == nullptr ? state != kListens : !is_one(*remote, there)) continue;
    words >> skipped >> skipped >> skipped >> uid;
    if (words) uids.push_back(uid);
  }
  return uids;
}

const unsigned* stranger_of(const std::vector<unsigned>& uids) {
  const auto found = std::find_if(uids.begin(), uids.end(), [](unsigned uid) {
    return uid >= kSystemUsers && uid != ::geteuid();
  });
  return found == uids.end() ? nullptr : &*found;
}

SocketTables tables_now() {
  const auto text = [](const char* path) {
    auto read = read_file(path, kLongestTable);
    return read ? std::move(*read) : std::string();
  };
  return {text("/proc/net/tcp"), text("/proc/net/tcp6")};
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

std::string why_not_trusted(const Endpoint& server, const Endpoint& ours, const SocketTables& first,
                            const SocketTables& then) {
  const std::string where = fmt::format("{} port {}", server.address, server.port);
  const Written at = written(server, true), end = written(server, false);
  const Written from = written(ours, false);
  if (at.six.empty()) return "refused: " + where + " is not this host alone; nothing was sent";
  auto listening = owners(first.tcp, at.four, nullptr);
  if (listening.empty()) listening = owners(first.tcp6, at.six, nullptr);
  if (listening.empty())
    return "refused: " + where + ": it cannot be seen who listens there; nothing was sent";
  if (const unsigned* stranger = stranger_of(listening))
    return fmt::format("refused: {} listens on {}; nothing was sent", user_name_of(*stranger),
                       where);
  auto taken = owners(then.tcp, end.four, &from.four);
  for (const unsigned uid : owners(then.tcp6, end.six, &from.six)) taken.push_back(uid);
  if (taken.empty())
    return "refused: " + where + ": it cannot be seen who took the connection; nothing was sent";
  if (const unsigned* stranger = stranger_of(taken))
    return fmt::format("refused: {} took the connection to {}; nothing was sent",
                       user_name_of(*stranger), where);
  return "";
}

TrustedConnection connect_to_trusted(const sockaddr* address, socklen_t size) {
  TrustedConnection made;
  const Endpoint server = endpoint_of(address, size);
  if (written(server, true).six.empty()) {  // before a word goes to another host
    made.distrust = why_not_trusted(server, {}, {}, {});
    return made;
  }
  Fd socket(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket || !connects(socket.get(), address, size)) return made;
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0) return made;
  const SocketTables first = tables_now();
  made.distrust = why_not_trusted(server, endpoint_of(reinterpret_cast<sockaddr*>(&own), length),
                                  first, tables_now());
  if (made.distrust.empty()) made.socket = std::move(socket);
  return made;
}

TrustedConnection open_socket(bool guarded, const sockaddr* address, socklen_t size, int type,
                              int protocol) {
  if (guarded) return connect_to_trusted(address, size);
  return {Fd(::socket(address->sa_family, type | SOCK_CLOEXEC, protocol)), ""};
}

}  // namespace stoker::os
