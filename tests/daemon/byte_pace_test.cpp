// How fast other users may send bytes, by virtual time.
#include "daemon/socket/byte_pace.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

using namespace stoker;
using namespace stoker::daemon;

namespace {
std::size_t taken(BytePace& pace, const Peer& peer, std::size_t bytes, Instant now) {
  std::size_t count = 0;
  while (count < 10000 && pace.takes(peer, bytes, now)) ++count;
  return count;
}
}  // namespace

TEST_CASE("byte pace: another user sends without end -> 512 KiB, then 32 KiB a second") {
  BytePace pace;
  const Peer mate{54321, 54321, 1}, other{54322, 54322, 1};
  const Instant start{};
  CHECK(taken(pace, mate, (16u << 10) - 512, start) == 32);
  CHECK(taken(pace, mate, (16u << 10) - 512, start + 1s) == 2);
  CHECK(taken(pace, other, (16u << 10) - 512, start + 1s) == 32);
  CHECK(taken(pace, mate, 0, start + 2s) == 64);  // an empty line is work too
  CHECK(taken(pace, mate, (16u << 10) - 512, start + 1h) == 32);
  CHECK(taken(pace, {::geteuid(), 0, 1}, 1u << 20, start) == 10000);
  CHECK(taken(pace, {0, 0, 1}, 1u << 20, start) == 10000);
}
