// Who gets a secret that goes to a port of this host in clear text.
#include "common/os/listener.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sstream>
#include <sys/socket.h>
#include <unistd.h>

#include "common/os/fd.hpp"

using namespace stoker;

namespace {

constexpr const char* kColumns =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout\n";

std::string row(const std::string& local, unsigned uid, const std::string& state = "0A") {
  return "   0: " + local + " 00000000:0000 " + state +
         " 00000000:00000000 00:00000000 00000000  " + std::to_string(uid) + "        0 12345 1\n";
}
std::string judge(const std::string& address, const std::string& tcp,
                  const std::string& tcp6 = "") {
  std::istringstream four(kColumns + tcp), six(kColumns + tcp6);
  return os::why_no_secret(address, 6820, four, six);
}
bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("listener: root, a system's user or we ourselves -> may have it; another user -> not") {
  for (const unsigned uid : {0u, 999u, unsigned{::geteuid()}})
    CHECK(judge("127.0.0.1", row("0100007F:1AA4", uid)).empty());
  CHECK(says(judge("127.0.0.1", row("0100007F:1AA4", 54321)), "uid 54321 listens"));
  CHECK(says(judge("127.0.0.1", row("00000000:1AA4", 54321)), "uid 54321 listens"));
  CHECK(says(judge("127.0.0.1", row("0100007F:1AA4", ::geteuid() + 1000)), "listens"));
}

TEST_CASE("listener: other ports and addresses, and connections that are open, prove nothing") {
  for (const std::string& none :
       {row("0100007F:1AA5", 0), row("0200007F:1AA4", 0), row("0100007F:1AA4", 0, "01"),
        row("0100007F:1AA4", 0, "01") + row("0100007F:1AA4", 0), std::string("torn"),
        std::string()})
    CHECK(says(judge("127.0.0.1", none), "cannot be seen"));
  // One who takes another address of this host does not stop what root's server gets.
  CHECK(judge("127.0.0.1", row("0200007F:1AA4", 54321) + row("0100007F:1AA4", 0)).empty());
  CHECK(!judge("127.0.0.1", row("0100007F:1AA4", 0) + row("0100007F:1AA4", 54321)).empty());
}

TEST_CASE("listener: IPv6, alone and for both -> as IPv4") {
  const std::string loopback = "00000000000000000000000001000000:1AA4";
  const std::string any = "00000000000000000000000000000000:1AA4";
  const std::string mapped = "0000000000000000FFFF00000100007F:1AA4";
  CHECK(judge("::1", "", row(loopback, 0)).empty());
  CHECK(says(judge("::1", row("0100007F:1AA4", 0), row(loopback, 54321)), "uid 54321"));
  CHECK(says(judge("127.0.0.1", "", row(any, 54321)), "uid 54321"));
  CHECK(says(judge("127.0.0.1", "", row(mapped, 54321)), "uid 54321"));
  CHECK(judge("127.0.0.1", row("00000000:1AA4", 0), row(any, 54321)).empty());  // IPv6 alone
  for (const char* elsewhere : {"10.0.0.1", "::2", "8.8.8.8", "", "localhost"})
    CHECK(says(judge(elsewhere, row("00000000:1AA4", 0), row(any, 0)), "not this host"));
}

TEST_CASE("listener: the kernel's own table shows a socket of ours, and none after it is closed") {
  os::Fd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(server.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(server.get(), 4) == 0);
  REQUIRE(::getsockname(server.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  CHECK(os::why_no_secret("127.0.0.1", ntohs(address.sin_port)).empty());
  server.reset();
  CHECK(says(os::why_no_secret("127.0.0.1", ntohs(address.sin_port)), "nothing listens"));
}
