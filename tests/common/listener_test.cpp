// Who gets clear text that goes to a port of this host.
#include "common/os/listener.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <functional>
#include <memory>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/files.hpp"

using namespace stoker;

namespace {

constexpr const char* kColumns =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout\n";

constexpr const char* kServer = "0100007F:1AA4";  // 127.0.0.1 port 6820
constexpr const char* kOurs = "0100007F:9C40";    // 127.0.0.1 port 40000
constexpr const char* kNone = "00000000:0000";
constexpr unsigned kStranger = 54321;

std::string row(const std::string& local, unsigned uid, const std::string& remote = kNone,
                const std::string& state = "0A") {
  return "   0: " + local + " " + remote + " " + state +
         " 00000000:00000000 00:00000000 00000000  " + std::to_string(uid) + "        0 12345 1\n";
}
std::string taken(unsigned uid) {
  return row(kServer, uid, kOurs, "01");
}
std::string judge(const std::string& address, const std::string& tcp, const std::string& tcp6 = "",
                  const std::string& then = taken(0), const std::string& then6 = "") {
  const os::SocketTables first{kColumns + tcp, kColumns + tcp6};
  const os::SocketTables last{kColumns + then, kColumns + then6};
  return os::why_not_trusted({address, 6820}, {address, 40000}, first, last);
}
bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A socket that listens on this host, and its address.
struct Server {
  os::Fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  Server() {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    const int yes = 1;  // another may take the port while a connection to it is open
    REQUIRE(::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0);
    REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    listen();
    REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  }
  void listen() { REQUIRE(::listen(socket.get(), 4) == 0); }
  [[nodiscard]] os::TrustedConnection connect() const {
    return os::connect_to_trusted(reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
};

}  // namespace

TEST_CASE("listener: root, a system's user or we ourselves -> may have it; another user -> not") {
  for (const unsigned uid : {0u, 999u, unsigned{::geteuid()}}) {
    CHECK(judge("127.0.0.1", row(kServer, uid)).empty());
    CHECK(judge("127.0.0.1", row(kServer, uid), "", taken(uid)).empty());
  }
  CHECK(says(judge("127.0.0.1", row(kServer, kStranger)), "uid 54321 listens"));
  CHECK(says(judge("127.0.0.1", row("00000000:1AA4", kStranger)), "uid 54321 listens"));
  CHECK(says(judge("127.0.0.1", row(kServer, ::geteuid() + 1000)), "listens"));
}

TEST_CASE("listener: who took the connection and gave the port back -> is found by his end of it") {
  CHECK(says(judge("127.0.0.1", row(kServer, 0), "", taken(kStranger)), "uid 54321 took"));
  CHECK(says(judge("127.0.0.1", row(kServer, 0), "", ""), "cannot be seen who took"));
  // Connections of others to the same server, and ours seen from our end, are not it.
  const std::string others =
      row(kServer, kStranger, "0100007F:9C41", "01") + row(kOurs, kStranger, kServer, "01");
  CHECK(judge("127.0.0.1", row(kServer, 0), "", others + taken(0)).empty());
  CHECK(says(judge("127.0.0.1", row(kServer, 0), "", others), "cannot be seen who took"));
}

TEST_CASE("listener: other ports and addresses, and connections that are open, prove nothing") {
  for (const std::string& nothing :
       {row("0100007F:1AA5", 0), row("0200007F:1AA4", 0), row(kServer, 0, kOurs, "01"),
        std::string("torn"), std::string()})
    CHECK(says(judge("127.0.0.1", nothing), "cannot be seen who listens"));
  // One who takes another address of this host does not stop what root's server gets.
  CHECK(judge("127.0.0.1", row("0200007F:1AA4", kStranger) + row(kServer, 0)).empty());
  CHECK(!judge("127.0.0.1", row(kServer, 0) + row(kServer, kStranger)).empty());
}

TEST_CASE("listener: IPv6, alone and for both -> as IPv4") {
  const std::string loopback = "00000000000000000000000001000000:1AA4";
  const std::string any = "00000000000000000000000000000000:1AA4";
  const std::string mapped = "0000000000000000FFFF00000100007F:1AA4";
  const std::string from = "00000000000000000000000001000000:9C40";
  const std::string from_mapped = "0000000000000000FFFF00000100007F:9C40";
  CHECK(judge("::1", "", row(loopback, 0), "", row(loopback, 0, from, "01")).empty());
  CHECK(says(judge("::1", "", row(loopback, 0), "", row(loopback, kStranger, from, "01")), "took"));
  CHECK(says(judge("::1", row(kServer, 0), row(loopback, kStranger)), "uid 54321"));
  CHECK(says(judge("127.0.0.1", "", row(any, kStranger)), "uid 54321"));
  CHECK(says(judge("127.0.0.1", "", row(mapped, kStranger)), "uid 54321"));
  CHECK(judge("127.0.0.1", "", row(any, 0), "", row(mapped, 0, from_mapped, "01")).empty());
  CHECK(judge("127.0.0.1", row("00000000:1AA4", 0), row(any, kStranger)).empty());  // IPv6 alone
  for (const char* elsewhere : {"10.0.0.1", "::2", "8.8.8.8", "", "localhost"})
    CHECK(says(judge(elsewhere, row("00000000:1AA4", 0), row(any, 0)), "not this host"));
}

TEST_CASE("listener: a server of ours -> connected; none, another host, a stranger's -> not") {
  Server server;
  const auto made = server.connect();
  CHECK(made.socket);
  CHECK(made.distrust == "");
  server.socket.reset();
  CHECK_FALSE(server.connect().socket);
  CHECK(server.connect().distrust == "");
  server.address.sin_addr.s_addr = htonl(0x08080808);
  CHECK(says(server.connect().distrust, "not this host"));
}

TEST_CASE("listener: a stranger keeps the connection and gives his port to our server -> found") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: to act as another user needs root");
    return;
  }
  const auto as_stranger = [](const std::function<void()>& act) {  // the thread's own uid
    std::thread([&act] {
      REQUIRE(::syscall(SYS_setresuid, -1, kStranger, -1) == 0);
      act();
    }).join();
  };
  std::unique_ptr<Server> theirs;
  as_stranger([&] { theirs = std::make_unique<Server>(); });
  CHECK(says(theirs->connect().distrust, "uid 54321 listens"));
  // The tables of the moment after he has accepted, and before and after he gives the port back.
  os::Fd ours(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), kept;
  const auto* address = reinterpret_cast<const sockaddr*>(&theirs->address);
  REQUIRE(::connect(ours.get(), address, sizeof theirs->address) == 0);
  as_stranger([&] {
    for (int n = 0; n < 2; ++n)  // the first is that of connect(), which is closed
      kept = os::Fd(::accept4(theirs->socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  });
  sockaddr_in own{};
  socklen_t size = sizeof own;
  REQUIRE(::getsockname(ours.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0);
  const auto tables = [] {
    return os::SocketTables{*os::read_file("/proc/net/tcp", 64u << 20),
                            *os::read_file("/proc/net/tcp6", 64u << 20)};
  };
  const os::Endpoint there{"127.0.0.1", ntohs(theirs->address.sin_port)};
  const os::Endpoint here{"127.0.0.1", ntohs(own.sin_port)};
  theirs->socket = os::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(theirs->socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  REQUIRE(::bind(theirs->socket.get(), address, sizeof theirs->address) == 0);
  theirs->listen();  // root's now
  const std::string why = os::why_not_trusted(there, here, tables(), tables());
  CHECK_MESSAGE(says(why, "uid 54321 took"), why);
}
