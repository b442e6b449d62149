#include "common/os/ports.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

namespace stoker::os {
namespace {

bool bind_to(const Fd& fd, in_addr_t address, std::uint16_t port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(address);
  return fd && ::bind(fd.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
}

}  // namespace

Fd lock_port(std::uint16_t port) {
  Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return bind_to(fd, INADDR_LOOPBACK, port) ? std::move(fd) : Fd();
}

bool tcp_port_is_free(std::uint16_t port) {
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  return bind_to(fd, INADDR_ANY, port);
}

}  // namespace stoker::os
