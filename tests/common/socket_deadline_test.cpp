// A reader of a socket whose peer neither speaks nor leaves: it ends at the deadline, not before.
#include "common/os/socket_deadline.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "common/os/fd.hpp"

using namespace stoker;

namespace {

struct Pair {
  Pair() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    here.reset(ends[0]);
    there.reset(ends[1]);
  }
  // Of the end, or the first byte that came.
  [[nodiscard]] ssize_t read() const {
    char byte = 0;
    return ::recv(here.get(), &byte, 1, 0);
  }
  os::Fd here, there;
};

}  // namespace

TEST_CASE("socket deadline: it comes -> the reader gets an end, the other side too") {
  const Pair pair;
  const os::SocketDeadline deadline(pair.here.get(), 100ms);
  CHECK(pair.read() == 0);
  char byte = 0;
  CHECK(::recv(pair.there.get(), &byte, 1, 0) == 0);
}

TEST_CASE("socket deadline: a peer that speaks without end -> the reader ends all the same") {
  const Pair pair;
  std::atomic<bool> over = false;
  std::thread peer([&] {
    const char byte = 'x';
    while (!over && ::send(pair.there.get(), &byte, 1, MSG_NOSIGNAL) == 1) {
    }
  });
  const os::SocketDeadline deadline(pair.here.get(), 100ms);
  while (pair.read() > 0) {
  }
  over = true;
  peer.join();
}

TEST_CASE("socket deadline: lifted, moved, of no socket -> nothing is shut down") {
  const Pair pair;
  { const os::SocketDeadline lifted(pair.here.get(), 100ms); }
  os::SocketDeadline moved;
  {
    os::SocketDeadline first(pair.here.get(), 100ms);
    moved = std::move(first);
    moved = os::SocketDeadline();
  }
  const os::SocketDeadline none(-1, 0s);
  const Pair other;
  const os::SocketDeadline last(other.here.get(), 300ms);
  CHECK(other.read() == 0);  // those before it would have come by now
  CHECK(::send(pair.there.get(), "x", 1, MSG_NOSIGNAL) == 1);
  CHECK(pair.read() == 1);
}
