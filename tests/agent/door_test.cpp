// The lead's port with strangers in front of it, on real sockets.
#include "worker/agent/link/door.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>

using namespace stoker;
using namespace stoker::agent;

namespace {

const std::string kSecret(64, 's');

struct House {
  Loop loop;
  std::vector<std::string> notices, known, heard;
  std::vector<std::unique_ptr<Link>> links;
  Door door{{loop, [](const NodeName& node) { return node.text == "n02"; },
             [this](const Hello& hello, std::unique_ptr<Link> link) {
               known.push_back(hello.node.text);
               link->replace_events({[this](const Frame& frame) { heard.push_back(frame.content); },
                                     [this](const Link::Broken& broken) {
                                       heard.push_back("broken: " + broken.why);
                                     }});
               links.push_back(std::move(link));
             },
             [this](std::string text) { notices.push_back(std::move(text)); }},
            kSecret};
  House() { REQUIRE(door.open("127.0.0.1", 1)); }
  os::Fd connect() const {
    auto fd = connect_tcp("127.0.0.1", door.port(), 5s);
    REQUIRE(fd);
    return std::move(*fd);
  }
  void turn_until(const std::function<bool()>& done) {
    const Instant end = monotonic_now() + 30s;
    bool is_done = done();
    while (!is_done && monotonic_now() < end) {
      loop.turn(10ms);
      is_done = done();
    }
    REQUIRE(is_done);
  }
};

Hello hello_of(const std::string& node) {
  Hello hello;
  hello.build = STOKER_VERSION;
  hello.node = NodeName(node);
  hello.nonce = random_secret();
  return hello;
}

void say(const os::Fd& fd, const std::string& bytes) {
  REQUIRE(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
}

bool closed(const os::Fd& fd) {
  char byte = 0;
  const ssize_t n = ::recv(fd.get(), &byte, 1, MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno == ECONNRESET);
}

// In a thread, as a follower does it.
struct Knocking {
  std::atomic<bool> done = false;
  Result<SessionKeys> keys = fail("not done");
  std::thread thread;
  Knocking(const os::Fd& fd, const std::string& secret, const std::string& node)
      : thread([this, &fd, secret, node] {
          keys = knock(fd, {secret, hello_of(node)}, 10s);
          done = true;
        }) {}
  ~Knocking() { thread.join(); }
};

}  // namespace

TEST_CASE("door: a follower among 500 silent strangers -> is let in; at most 64 stay") {
  House house;
  std::vector<os::Fd> strangers;
  for (int i = 0; i < 250; ++i) strangers.push_back(house.connect());
  const os::Fd ours = house.connect();
  FollowerHandshake follower(kSecret, hello_of("n02"));
  say(ours, encode_frame('h', follower.knock()));
  for (int i = 0; i < 250; ++i) {
    strangers.push_back(house.connect());
    house.loop.turn({});
  }
  FrameReader reader;
  std::optional<Frame> challenge;
  house.turn_until([&] {
    char bytes[256];
    const ssize_t n = ::recv(ours.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0) REQUIRE(reader.feed({bytes, static_cast<std::size_t>(n)}));
    return (challenge = reader.next()).has_value();
  });
  const auto answer = follower.take(*challenge);
  REQUIRE(answer);
  say(ours, encode_frame('h', *answer));
  house.turn_until([&] { return !house.known.empty(); });
  CHECK(house.known == std::vector<std::string>{"n02"});
  house.turn_until(
      [&] { return std::count_if(strangers.begin(), strangers.end(), closed) >= 500 - 64; });
  CHECK(house.door.flooded());
  CHECK(house.notices.size() <= 1);
  Seal out(follower.keys().to_lead);
  const std::string frame = encode_frame('l', "line\n", out.close('l', "line\n"));
  say(ours, frame);
  house.turn_until([&] { return !house.heard.empty(); });
  CHECK(house.heard == std::vector<std::string>{"line\n"});
  say(ours, frame);  // once more
  house.turn_until([&] { return house.heard.size() == 2; });
  CHECK(house.heard[1] == "broken: a frame with a wrong MAC");
}

TEST_CASE("door: a wrong secret, a node that is not ours, a large frame -> closed, one notice") {
  House house;
  for (const auto& [secret, node] :
       std::vector<std::pair<std::string, std::string>>{{"wrong", "n02"}, {kSecret, "n77"}}) {
    const os::Fd fd = house.connect();
    Knocking knocking(fd, secret, node);
    house.turn_until([&] { return knocking.done.load(); });
    CHECK_FALSE(knocking.keys);
  }
  const os::Fd large = house.connect();
  say(large, std::string("\x01\x10\x00\x00h", 5));  // 4097 bytes follow
  house.turn_until([&] { return closed(large); });
  CHECK(house.known.empty());
  CHECK(house.notices.size() <= 1);
}

TEST_CASE(
    "door: few descriptors are left -> strangers are refused, logs and ranks still get theirs") {
  House house;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  std::vector<os::Fd> strangers;
  for (int i = 0; i < 60; ++i) strangers.push_back(house.connect());
  const auto used = static_cast<rlim_t>(strangers.back().get()) + 1;
  const rlimit few{(used + 20) * 4 / 3, before.rlim_max};  // the reserve begins after 20 of them
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  house.turn_until([&] { return std::count_if(strangers.begin(), strangers.end(), closed) >= 38; });
  std::vector<os::Fd> logs;
  for (rlim_t i = 0; i < few.rlim_cur / 4 - 2; ++i) logs.emplace_back(::dup(0));
  const bool all = std::all_of(logs.begin(), logs.end(), [](const os::Fd& fd) { return !!fd; });
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(all);
}

TEST_CASE(
    "door: more followers than the limit of descriptors has room for -> the limit is raised") {
  House house;
  rlimit before{}, after{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{600, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  Door door({house.loop, {}, {}, {}}, kSecret);
  CHECK(door.open("127.0.0.1", 100));
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &after) == 0);
  CHECK(after.rlim_cur == 600);
  Door large({house.loop, {}, {}, {}}, kSecret);
  CHECK(large.open("127.0.0.1", 1000));
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &after) == 0);
  CHECK(after.rlim_cur >= 1000 + Door::kStrangers + 256);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
}

TEST_CASE("door: bound to the address that the nodes use, and to no other") {
  auto listener = listen_tcp("127.0.0.2");
  REQUIRE(listener);
  CHECK(listener->note.empty());
  CHECK(connect_tcp("127.0.0.2", listener->port, 5s));
  CHECK_FALSE(connect_tcp("127.0.0.1", listener->port, 5s));
  auto foreign = listen_tcp("192.0.2.1");  // of no host
  REQUIRE(foreign);
  CHECK_FALSE(foreign->note.empty());
  CHECK(connect_tcp("127.0.0.1", foreign->port, 5s));
}
