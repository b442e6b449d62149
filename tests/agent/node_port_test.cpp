// The port of an attempt while others take ports and locks.
#include <doctest/doctest.h>

#include "common/os/ports.hpp"
#include "worker/agent/node/node.hpp"

using namespace stoker;
using namespace stoker::agent;

TEST_CASE(
    "ports: a squatted lock or a squatted port -> another one, also when the range is taken") {
  auto first = hold_free_port();
  REQUIRE(first);
  const auto port = static_cast<std::uint16_t>(first->port);
  CHECK_FALSE(os::lock_port(port));
  CHECK_FALSE(os::tcp_port_is_free(port));
  const auto other = hold_free_port(port, 1);
  REQUIRE(other);
  CHECK(other->port != first->port);
  first->socket.reset();
  CHECK(os::tcp_port_is_free(port));
  const auto locked = hold_free_port(port, 1);
  REQUIRE(locked);
  CHECK(locked->port != port);
  first->lock.reset();
  CHECK(os::lock_port(port));
}
