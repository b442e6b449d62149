// Who gets clear text that goes to a port of this host.
#include "common/os/listener.hpp"

#include <arpa/inet.h>
#include <cstring>
#include <doctest/doctest.h>
#include <functional>
#include <ifaddrs.h>
#include <memory>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/socket_owners.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using stoker::testing::Folder;

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
  const Folder folder;
  const os::SocketTables first{folder.write("tcp", kColumns + tcp),
                               folder.write("tcp6", kColumns + tcp6)};
  const os::SocketTables last{folder.write("then", kColumns + then),
                              folder.write("then6", kColumns + then6)};
  const os::Endpoint server{address, 6820}, ours{address, 40000};
  return os::why_not_trusted(server,
                             {os::listeners_in(first, server), os::holders_in(last, server, ours)});
}
bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

using Uids = std::vector<unsigned>;

Uids only(const std::optional<unsigned>& uid) {
  return uid ? Uids{*uid} : Uids{};
}

os::Endpoint endpoint_of(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";  // NOLINT
  const auto* four = reinterpret_cast<const sockaddr_in*>(&address);
  const auto* six = reinterpret_cast<const sockaddr_in6*>(&address);
  const bool is_four = address.ss_family == AF_INET;
  ::inet_ntop(address.ss_family,
              is_four ? static_cast<const void*>(&four->sin_addr) : &six->sin6_addr, text,
              sizeof text);
  return {text, ntohs(is_four ? four->sin_port : six->sin6_port)};
}

// A socket that listens on this host, and its address.
struct Server {
  os::Fd socket;
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  explicit Server(const char* at = "127.0.0.1") {
    auto* four = reinterpret_cast<sockaddr_in*>(&address);
    auto* six = reinterpret_cast<sockaddr_in6*>(&address);
    address.ss_family = ::inet_pton(AF_INET, at, &four->sin_addr) == 1 ? AF_INET : AF_INET6;
    if (address.ss_family == AF_INET6) REQUIRE(::inet_pton(AF_INET6, at, &six->sin6_addr) == 1);
    size = address.ss_family == AF_INET ? sizeof *four : sizeof *six;
    open();
    REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  }
  void open() {
    socket = os::Fd(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1, no = 0;  // another may take the port while a connection to it is open
    REQUIRE(::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0);
    if (address.ss_family == AF_INET6)
      REQUIRE(::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0);
    REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(socket.get(), 64) == 0);
  }
  [[nodiscard]] os::Endpoint at() const { return endpoint_of(address); }
  [[nodiscard]] os::TrustedConnection connect() const {
    return os::connect_to_trusted(reinterpret_cast<const sockaddr*>(&address), size);
  }
};

// A connection to this address and port of this host.
struct Connection {
  os::Fd socket;
  os::Endpoint ours;
  explicit Connection(const os::Endpoint& to) {
    sockaddr_storage address{};
    auto* four = reinterpret_cast<sockaddr_in*>(&address);
    auto* six = reinterpret_cast<sockaddr_in6*>(&address);
    const bool is_four = ::inet_pton(AF_INET, to.address.c_str(), &four->sin_addr) == 1;
    if (!is_four) REQUIRE(::inet_pton(AF_INET6, to.address.c_str(), &six->sin6_addr) == 1);
    address.ss_family = is_four ? AF_INET : AF_INET6;
    (is_four ? four->sin_port : six->sin6_port) = htons(static_cast<std::uint16_t>(to.port));
    socklen_t size = is_four ? sizeof *four : sizeof *six;
    socket = os::Fd(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    ours = endpoint_of(address);
  }
};

os::Fd accepted(const Server& server) {
  os::Fd taken(::accept4(server.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(taken);
  return taken;
}

void as_stranger(const std::function<void()>& act) {  // the thread's own uid
  std::thread([&act] {
    REQUIRE(::syscall(SYS_setresuid, -1, kStranger, -1) == 0);
    act();
  }).join();
}

bool is_root() {
  if (::geteuid() != 0) MESSAGE("skipped: to act as another user needs root");
  return ::geteuid() == 0;
}

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
}

TEST_CASE(
    "listener: loopback, no address, mapped and own addresses are this host; others are not") {
  const auto here = [](const char* at) {
    sockaddr_storage address{};
    auto* four = reinterpret_cast<sockaddr_in*>(&address);
    auto* six = reinterpret_cast<sockaddr_in6*>(&address);
    address.ss_family = ::inet_pton(AF_INET, at, &four->sin_addr) == 1 ? AF_INET : AF_INET6;
    if (address.ss_family == AF_INET6) REQUIRE(::inet_pton(AF_INET6, at, &six->sin6_addr) == 1);
    return os::is_of_this_host(reinterpret_cast<const sockaddr*>(&address));
  };
  for (const char* ours :
       {"127.0.0.1", "127.9.9.9", "0.0.0.0", "::", "::1", "::ffff:127.0.0.1", "::ffff:0.0.0.0"})
    CHECK_MESSAGE(here(ours), ours);
  for (const char* theirs : {"192.0.2.1", "::2", "8.8.8.8", "::ffff:8.8.8.8", "2001:db8::1"})
    CHECK_FALSE_MESSAGE(here(theirs), theirs);
  ifaddrs* first = nullptr;
  REQUIRE(::getifaddrs(&first) == 0);
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next)
    if (one->ifa_addr != nullptr &&
        (one->ifa_addr->sa_family == AF_INET || one->ifa_addr->sa_family == AF_INET6))
      CHECK(os::is_of_this_host(one->ifa_addr));
  ::freeifaddrs(first);
}

TEST_CASE("listener: a stranger's port by any name of this host -> refused, ours -> connected") {
  if (!is_root()) return;
  std::vector<std::string> names{"127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1", "::1", "::"};
  ifaddrs* first = nullptr;
  REQUIRE(::getifaddrs(&first) == 0);
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next)
    if (one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET) {
      sockaddr_storage address{};
      std::memcpy(&address, one->ifa_addr, sizeof(sockaddr_in));
      names.push_back(endpoint_of(address).address);
    }
  ::freeifaddrs(first);
  for (const bool stranger : {true, false}) {
    std::unique_ptr<Server> server;
    const auto make = [&] { server = std::make_unique<Server>("::"); };
    stranger ? as_stranger(make) : make();
    for (const std::string& name : names) {
      CAPTURE(name);
      sockaddr_storage address{};
      auto* four = reinterpret_cast<sockaddr_in*>(&address);
      auto* six = reinterpret_cast<sockaddr_in6*>(&address);
      const bool is_four = ::inet_pton(AF_INET, name.c_str(), &four->sin_addr) == 1;
      if (!is_four) REQUIRE(::inet_pton(AF_INET6, name.c_str(), &six->sin6_addr) == 1);
      address.ss_family = is_four ? AF_INET : AF_INET6;
      const auto port = htons(static_cast<std::uint16_t>(server->at().port));
      (is_four ? four->sin_port : six->sin6_port) = port;
      const socklen_t size = is_four ? sizeof *four : sizeof *six;
      const auto made =
          os::open_socket(os::Guard::NoStrangerHere, reinterpret_cast<const sockaddr*>(&address),
                          size, SOCK_STREAM, 0);
      CHECK(bool(made.socket) == !stranger);
      CHECK(made.connected == !stranger);
      if (stranger) CHECK_MESSAGE(says(made.distrust, "uid 54321 listens"), made.distrust);
    }
  }
}

TEST_CASE("listener: a server of ours -> connected; none, another host, a stranger's -> not") {
  Server server;
  const auto made = server.connect();
  CHECK(made.socket);
  CHECK(made.distrust == "");
  server.socket.reset();
  CHECK_FALSE(server.connect().socket);
  CHECK(server.connect().distrust == "");
  reinterpret_cast<sockaddr_in*>(&server.address)->sin_addr.s_addr = htonl(0x08080808);
  CHECK(says(server.connect().distrust, "not this host"));
}

TEST_CASE("listener: a stranger keeps the connection and gives his port to our server -> found") {
  if (!is_root()) return;
  std::unique_ptr<Server> theirs;
  as_stranger([&] { theirs = std::make_unique<Server>(); });
  CHECK(says(theirs->connect().distrust, "uid 54321 listens"));
  const os::Endpoint there = theirs->at();
  const Connection ours(there);
  os::Fd kept;
  as_stranger([&] {
    for (int n = 0; n < 2; ++n) kept = accepted(*theirs);  // the first is that of connect()
  });
  theirs->open();  // root's now
  const os::SocketOwners asked{os::listeners_at(there), os::holders_of(there, ours.ours)};
  const std::string why = os::why_not_trusted(there, asked);
  CHECK_MESSAGE(says(why, "uid 54321 took"), why);
  const os::SocketOwners read{os::listeners_in({}, there), os::holders_in({}, there, ours.ours)};
  CHECK(os::why_not_trusted(there, read) == why);
}

TEST_CASE("listener: netlink and the tables of /proc give the same answers") {
  const auto both = [](const os::Endpoint& there, const os::Endpoint& ours) {
    const Uids listening = os::listeners_in({}, there), taken = os::holders_in({}, there, ours);
    CHECK(only(os::ask_for_listener(there)) == listening);
    CHECK(only(os::ask_for_holder(there, ours)) == taken);
    return std::pair(listening, taken);
  };
  const Uids own{::geteuid()}, none, stranger{kStranger};
  // The address where it listens, and the one that is called.
  const std::vector<std::pair<const char*, std::string>> ways{{"127.0.0.1", "127.0.0.1"},
                                                              {"127.0.0.7", "127.0.0.7"},
                                                              {"0.0.0.0", "127.0.0.1"},
                                                              {"::1", "::1"},
                                                              {"::", "::1"},
                                                              {"::", "127.0.0.1"},
                                                              {"::ffff:127.0.0.1", "127.0.0.1"}};
  for (const auto& way : ways) {
    const char* at = way.first;
    const std::string& called = way.second;
    CAPTURE(at);
    CAPTURE(called);
    Server server(at);
    const os::Endpoint there{called, server.at().port};
    const os::Endpoint no_port{called, 1};
    const Connection ours(there);
    os::Fd taken = accepted(server);
    CHECK(both(there, ours.ours) == std::pair(own, own));
    CHECK(both(there, no_port) == std::pair(own, none));
    CHECK(both(no_port, ours.ours) == std::pair(none, none));
    server.socket.reset();  // its connection stays
    CHECK(both(there, ours.ours) == std::pair(none, own));
    if (!is_root()) continue;
    std::unique_ptr<Server> theirs;
    as_stranger([&] { theirs = std::make_unique<Server>(at); });
    const os::Endpoint to_them{called, theirs->at().port};
    const Connection second(to_them);
    as_stranger([&] { taken = accepted(*theirs); });
    CHECK(both(to_them, second.ours) == std::pair(stranger, stranger));
  }
}

TEST_CASE("listener: no question to the kernel, another family -> no answer by netlink") {
  for (const char* nothing : {"", "localhost", "127.0.0", "10.0.0.256"})
    CHECK_FALSE(os::ask_for_listener({nothing, 80}));
  CHECK_FALSE(os::ask_for_holder({"127.0.0.1", 80}, {"::1", 80}));
}

TEST_CASE("listener: a table of many rows, long and torn lines -> the row is found") {
  std::string many;
  for (int n = 0; n < 2000; ++n) many += row("0100007F:0050", kStranger, kOurs, "01");
  CHECK(judge("127.0.0.1", many + std::string(200'000, 'x') + "\n" + row(kServer, 0)).empty());
  CHECK(says(judge("127.0.0.1", many + row(kServer, kStranger)), "uid 54321 listens"));
  CHECK(os::listeners_in({"/none", "/none"}, {"127.0.0.1", 6820}).empty());
}
