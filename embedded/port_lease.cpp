#include "embedded/port_lease.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "common/os/ports.hpp"

namespace stoker::embedded {
namespace {

// The longest run of free ports of a range. Another program may sit in it, also one that wants to
// be in the way: the rest is good all the same.
void take_free_ports(PortLease& lease, std::uint16_t first) {
  std::uint16_t best = 0, run = 0;
  for (std::uint16_t i = 0; i < kPortsPerNode; ++i) {
    const auto port = static_cast<std::uint16_t>(first + i);
    run = os::tcp_port_is_free(port) ? static_cast<std::uint16_t>(run + 1) : std::uint16_t{0};
    if (run <= best) continue;
    best = run;
    lease.first = static_cast<std::uint16_t>(port + 1 - run);
    lease.last = port;
  }
}

std::uint16_t size_of(const PortLease& lease) {
  return lease.lock ? static_cast<std::uint16_t>(lease.last + 1 - lease.first) : std::uint16_t{0};
}

}  // namespace

std::string PortLease::text() const {
  return fmt::format("{}-{}", first, last);
}

Result<PortLease> lease_ports() {
  PortLease best;
  for (std::uint16_t i = 0; i < kPortRanges && size_of(best) < kPortsPerNode; ++i) {
    // Users begin at different places, so that they seldom meet.
    const auto slot = static_cast<std::uint16_t>((i + ::getuid() * 7) % kPortRanges);
    const auto first = static_cast<std::uint16_t>(kFirstPort + slot * kPortsPerNode);
    PortLease lease;
    lease.lock = os::lock_port(first);
    if (!lease.lock) continue;
    take_free_ports(lease, first);
    if (size_of(lease) > size_of(best)) best = std::move(lease);
  }
  if (size_of(best) > 0) return best;
  // Other users may have all the locks: then two nodes of this host may get the same ports, and the
  // first attempt that meets another's fails.
  PortLease unlocked;
  take_free_ports(unlocked, static_cast<std::uint16_t>(kFirstPort +
                                                       (::getpid() % kPortRanges) * kPortsPerNode));
  if (unlocked.first <= unlocked.last) return unlocked;
  return fail("no free ports between 20000 and 32699", "", "see with `ss -tuanp` who has them all");
}

}  // namespace stoker::embedded
