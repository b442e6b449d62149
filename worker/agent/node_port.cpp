// The port of an attempt. Chosen below the ephemeral range, so that no outgoing connection takes it
// between our release and rank 0's bind, and locked among the agents of this host (several "nodes"
// may share one) by an abstract unix socket for as long as the attempt lives.
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <netinet/in.h>
#include <random>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/os/files.hpp"
#include "worker/agent/node.hpp"

namespace stoker::agent {
namespace {

constexpr std::uint32_t kFirstPort = 20000, kPorts = 12000;
constexpr int kTries = 2000;

os::Fd lock_port(std::uint32_t port) {
  os::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::string name = fmt::format("stoker-port-{}", port);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // leading NUL: abstract
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return {};
  return fd;
}

}  // namespace

Result<HeldPort> hold_free_port() {
  std::random_device random;
  for (int i = 0; i < kTries; ++i) {
    HeldPort held;
    held.port = kFirstPort + random() % kPorts;
    held.lock = lock_port(held.port);
    if (!held.lock) continue;
    held.socket = os::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    address.sin_port = htons(static_cast<std::uint16_t>(held.port));
    if (::bind(held.socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0)
      return held;
  }
  return fail("no free TCP port in 20000-31999", os::host_name(), "end what listens there");
}

}  // namespace stoker::agent
