// LineServer over a real unix socket: peers, limits, hostile input.
#include "daemon/socket/line_server.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <thread>

#include "common/os/fd.hpp"
#include "daemon/socket/peer_rights.hpp"
#include "tests/daemon/fixtures.hpp"

using namespace stoker;
using namespace stoker::daemon;
using namespace stoker::daemon::test;

namespace {

struct Served {
  Folder folder;
  boost::asio::io_context io;
  Peer seen;
  std::string line;
  int handled = 0;
  std::unique_ptr<LineServer> server;
  std::thread thread;

  explicit Served(LineLimits limits) {
    server = std::make_unique<LineServer>(
        io,
        [this](const Peer& peer, std::string text, LineServer::Answer answer) {
          seen = peer;
          line = text;
          ++handled;
          answer("answer to " + text.substr(0, 20));
        },
        limits);
    REQUIRE(server->listen(folder.path, "s.sock", static_cast<gid_t>(-1)));
    thread = std::thread([this] { io.run(); });
  }
  ~Served() {
    boost::asio::post(io, [this] { server->close(); });
    io.stop();
    thread.join();
  }
  os::Fd connect() {
    os::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (folder / "s.sock").copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    return fd;
  }
};

}  // namespace

TEST_CASE("control socket: a line -> the answer, who asked, and the end") {
  Served served({});
  const auto fd = served.connect();
  REQUIRE(::send(fd.get(), "hello\nrest", 10, 0) == 10);
  CHECK(read_all(fd) == "answer to hello\n");
  CHECK(served.line == "hello");
  CHECK(served.seen.uid == ::geteuid());
  CHECK(served.seen.pid == ::getpid());
  struct stat info {};
  REQUIRE(::stat((served.folder / "s.sock").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0660);
}

TEST_CASE("control socket: an endless line -> closed unanswered") {
  Served served({1000, 5s, 32});
  const auto fd = served.connect();
  const std::string junk(100000, 'x');
  (void)::send(fd.get(), junk.data(), junk.size(), MSG_NOSIGNAL);
  CHECK(read_all(fd).empty());
  CHECK(served.handled == 0);
}

TEST_CASE("control socket: a peer that says nothing -> closed after its time") {
  Served served({1000, 50ms, 32});
  const auto fd = served.connect();
  CHECK(read_all(fd).empty());
  CHECK(served.handled == 0);
}

TEST_CASE("control socket: more connections than allowed -> the surplus is turned away at once") {
  Served served({1000, 5s, 2});
  const auto a = served.connect(), b = served.connect();
  const auto c = served.connect();
  CHECK(read_all(c) == std::string(kBusyLine) + "\n");
  REQUIRE(::send(a.get(), "a\n", 2, 0) == 2);
  CHECK(read_all(a) == "answer to a\n");
}

TEST_CASE("control socket: another user takes all it can get -> the owner is served at once") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: to be another user needs root");
    return;
  }
  Served served({1000, 5s, 8});
  REQUIRE(::chmod(served.folder.path.c_str(), 0755) == 0);
  REQUIRE(::chmod((served.folder / "s.sock").c_str(), 0666) == 0);
  std::vector<os::Fd> taken;
  std::thread others([&] {
    for (const int uid : {54321, 54322, 54323, 54324}) {  // of this thread alone
      REQUIRE(::syscall(SYS_setresuid, -1, uid, -1) == 0);
      for (int i = 0; i < 4; ++i) taken.push_back(served.connect());
      REQUIRE(::syscall(SYS_setresuid, -1, 0, -1) == 0);
    }
  });
  others.join();
  const auto owner = served.connect();
  REQUIRE(::send(owner.get(), "a\n", 2, 0) == 2);
  CHECK(read_all(owner) == "answer to a\n");
  std::size_t turned_away = 0;  // all were accepted before the owner was
  for (const os::Fd& fd : taken) {
    char first = 0;
    turned_away += ::recv(fd.get(), &first, 1, MSG_DONTWAIT | MSG_PEEK) == 1 ? 1 : 0;
  }
  CHECK(turned_away == 10);  // two each for three users, none for the fourth
}

TEST_CASE("control socket: a long line of another user -> its beginning is read, one late answer") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: to be another user needs root");
    return;
  }
  Served served({});
  REQUIRE(::chmod(served.folder.path.c_str(), 0755) == 0);
  REQUIRE(::chmod((served.folder / "s.sock").c_str(), 0666) == 0);
  const auto ask = [&served](std::size_t bytes, uid_t uid) {
    std::string said;
    std::thread other([&] {
      REQUIRE(::syscall(SYS_setresuid, -1, uid, -1) == 0);  // of this thread alone
      const auto fd = served.connect();
      const std::string line = std::string(bytes, 'x') + "\n";
      (void)::send(fd.get(), line.data(), line.size(), MSG_NOSIGNAL);
      said = read_all(fd);
      REQUIRE(::syscall(SYS_setresuid, -1, 0, -1) == 0);
    });
    other.join();
    return said;
  };
  CHECK(ask(kOthersLine, 54321).starts_with("answer to x"));
  CHECK(served.handled == 1);
  const Instant before = monotonic_now();
  CHECK(ask(kOthersLine + 1, 54321) == std::string(kLongLine) + "\n");
  CHECK(monotonic_now() - before >= 1s);
  CHECK(ask(120000, 54321) == std::string(kLongLine) + "\n");
  CHECK(served.handled == 1);
  CHECK(ask(1u << 20, 0).starts_with("answer to x"));
}

TEST_CASE("peer rights: root and the daemon's user may act, a stranger may not") {
  PeerRights rights;
  CHECK(rights.may_act({0, 0, 1}, ""));
  CHECK(rights.may_act({::geteuid(), 0, 1}, "no-such-group"));
  CHECK_FALSE(rights.may_act({54321, 54321, 1}, ""));
  CHECK_FALSE(rights.may_act({54321, 54321, 1}, "root"));
  CHECK_FALSE(rights.may_act({65534, 0, 1}, "root"));  // by a setgid program, or an old newgrp
  CHECK_FALSE(rights.may_act({54321, 0, 1}, "root"));  // a uid of a user namespace
  CHECK(rights.name_of(54321) == "uid 54321");
  CHECK(rights.name_of(0) == "root");
}

TEST_CASE("control socket: another daemon's file in its place -> left alone at the end") {
  Folder folder;
  boost::asio::io_context io;
  const auto handler = [](const Peer&, std::string, LineServer::Answer) {};
  LineServer first(io, handler), second(io, handler);
  REQUIRE(first.listen(folder.path, "s.sock", static_cast<gid_t>(-1)));
  CHECK(first.file().in_place());
  REQUIRE(second.listen(folder.path, "s.sock", static_cast<gid_t>(-1)));
  CHECK_FALSE(first.file().in_place());
  first.close();
  CHECK(second.file().in_place());
  ::unlink((folder / "s.sock").c_str());
  CHECK_FALSE(second.file().in_place());
  REQUIRE(second.listen(folder.path, "s.sock", static_cast<gid_t>(-1)));
  CHECK(second.file().in_place());
  second.close();
  struct stat info {};
  CHECK(::stat((folder / "s.sock").c_str(), &info) != 0);
}
