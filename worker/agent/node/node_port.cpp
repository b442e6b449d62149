// The port of an attempt. Chosen below the ephemeral range, so that no outgoing connection takes it
// between our release and rank 0's bind, and locked among the agents of this host (several "nodes"
// may share one) for as long as the attempt lives.
#include <cerrno>
#include <netinet/in.h>
#include <random>
#include <sys/socket.h>

#include "common/os/files.hpp"
#include "common/os/ports.hpp"
#include "worker/agent/node/node.hpp"

namespace stoker::agent {
namespace {

constexpr int kEphemeralTries = 100;

enum class Lock { Needed, Spared };

// 0: a port of the kernel's choice.
HeldPort hold(std::uint16_t port, Lock lock = Lock::Needed) {
  HeldPort held;
  held.socket = os::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(port);
  socklen_t size = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (!held.socket || ::bind(held.socket.get(), raw, size) != 0 ||
      ::getsockname(held.socket.get(), raw, &size) != 0)
    return {};
  held.lock = os::lock_port(ntohs(address.sin_port));
  if (!held.lock && lock == Lock::Needed) return {};
  held.port = ntohs(address.sin_port);
  return held;
}

}  // namespace

Result<HeldPort> hold_free_port(std::uint16_t first, std::uint16_t count) {
  std::random_device random;
  const std::uint32_t offset = random() % count;
  for (std::uint32_t i = 0; i < count; ++i)
    if (auto held = hold(static_cast<std::uint16_t>(first + (offset + i) % count)); held.port != 0)
      return held;
  // Somebody has them all. An outgoing connection may take one of these before rank 0 does: the
  // attempt then fails and the next one has another.
  for (int i = 0; i < kEphemeralTries; ++i)
    if (auto held = hold(0); held.port != 0) return held;
  // Or all the locks, which are free for all users: without one, two agents of a host may choose
  // the same port in the moment between our release and rank 0's bind.
  if (auto held = hold(0, Lock::Spared); held.port != 0) return held;
  return fail("no free TCP port for an attempt", os::host_name(),
              "see with `ss -tuanp` who has them all");
}

}  // namespace stoker::agent
