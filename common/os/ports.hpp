// TCP ports of this host that several programs of stoker share, without a name or file that a
// stranger could take first: the UDP port of the same number on 127.0.0.1 is the lock of a TCP
// port. It is free again with its holder, in every case, and a stranger who takes it has taken
// one number: the next one will do.
#pragma once

#include <cstdint>

#include "common/os/fd.hpp"

namespace stoker::os {

Fd lock_port(std::uint16_t port);           // empty: somebody has it
bool tcp_port_is_free(std::uint16_t port);  // on all addresses; TIME_WAIT does not count

}  // namespace stoker::os
