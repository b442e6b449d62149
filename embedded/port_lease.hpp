// Ports for one node of a job, disjoint from every other node's on this host: a range of 100 below
// the ephemeral ports, or what is free of one where all are touched, leased by the lock of its
// first port (os/ports.hpp) for as long as the holder lives, and proven free by binding.
#pragma once

#include <cstdint>
#include <string>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace stoker::embedded {

struct PortLease {
  os::Fd lock;                             // close-on-exec: children do not hold it
  std::uint16_t first = 1, last = 0;       // none
  [[nodiscard]] std::string text() const;  // "20000-20099"
};

inline constexpr std::uint16_t kFirstPort = 20000, kPortsPerNode = 100, kPortRanges = 127;

// Error: every range is taken.
Result<PortLease> lease_ports();

}  // namespace stoker::embedded
