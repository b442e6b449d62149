// The agent's loop never spins: not on a peer that hung up, not on one without a reader.
#include "worker/agent/loop.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "worker/agent/link/star.hpp"

using namespace stoker;
using namespace stoker::agent;

namespace {

struct Pair {
  os::Fd ours, theirs;
  explicit Pair(int type) {
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) == 0);
    ours = os::Fd(fds[0]);
    theirs = os::Fd(fds[1]);
  }
};

// Turns that the loop makes within `length`; a waiting loop makes a few, a spinning one thousands.
int turns_within(Loop& loop, Duration length) {
  int turns = 0;
  for (const Instant end = monotonic_now() + length; monotonic_now() < end; ++turns)
    loop.turn(50ms);
  return turns;
}

}  // namespace

TEST_CASE("Loop: a hung-up descriptor that its owner goes on watching -> forgotten, no spinning") {
  Loop loop;
  int fds[2];
  REQUIRE(::pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0);
  const os::Fd reading(fds[0]);
  ::close(fds[1]);
  int calls = 0;
  loop.watch(reading.get(), POLLIN, [&](short) { ++calls; });
  CHECK(turns_within(loop, 300ms) < 200);
  CHECK(calls <= 100);
  CHECK_FALSE(loop.watches(reading.get()));
}

TEST_CASE("Loop: bytes that are read turn by turn -> watched on") {
  Loop loop;
  Pair pair(SOCK_STREAM);
  int calls = 0;
  loop.watch(pair.ours.get(), POLLIN, [&](short) {
    char byte = 0;
    calls += static_cast<int>(::read(pair.ours.get(), &byte, 1));
  });
  for (int i = 0; i < 300; ++i) {
    REQUIRE(::write(pair.theirs.get(), "x", 1) == 1);
    loop.turn(10ms);
  }
  CHECK(calls == 300);
  CHECK(loop.watches(pair.ours.get()));
}

TEST_CASE("Link: the other side closes -> reported once, not watched any more") {
  Loop loop;
  Pair pair(SOCK_STREAM);
  const int fd = pair.ours.get();
  int broken = 0;
  Link::Events events;
  events.frame = [](const Frame&) {};
  events.broken = [&](const Link::Broken&) { ++broken; };
  const Link link(loop, std::move(pair.ours), std::move(events));
  CHECK(loop.watches(fd));
  pair.theirs.reset();
  CHECK(turns_within(loop, 200ms) < 50);
  CHECK(broken == 1);
  CHECK_FALSE(loop.watches(fd));
}
