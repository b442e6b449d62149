// The door to slurmrestd: what is refused before anything is sent. What is sent is tried on the
// real server (tests/slurm/real/rest.py).
#include "slurm/rest/http_door.hpp"

#include <algorithm>
#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using namespace stoker::slurm;

namespace {

RestAnswer ask(const core::RestAccess& access) {
  HttpDoor door(access, "alice");
  return door.ask({"GET", "/slurm/v0.0.38/ping", "", 5s}, {});
}

}  // namespace

TEST_CASE("slurmrestd's door: no server, no socket -> not reached, and why") {
  const stoker::testing::Folder folder;
  CHECK(!ask({"http://127.0.0.1:1", "", "", false}).reached);
  CHECK(ask({"http://127.0.0.1:1", "", "", false}).error.find("connect") != std::string::npos);
  const std::string file = folder.write("file", "x");
  CHECK(ask({"unix:" + file, "", "", false}).error == "is no socket");
  CHECK(!ask({"unix:" + file + "2", "", "", false}).reached);
  CHECK(!ask({"http://slurm.example.org:6820", "", "", false}).reached);  // plain http
}

TEST_CASE("slurmrestd's door: a stranger listens in a folder of all users -> nothing is sent") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: to be another user needs root");
    return;
  }
  const stoker::testing::Folder folder;
  const std::string path = folder / "rest.sock";
  const stoker::os::Fd server(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  REQUIRE(::bind(server.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  std::thread([&server] {  // the kernel notes who listens: of this thread alone
    REQUIRE(::syscall(SYS_setresuid, -1, 54321, -1) == 0);
    REQUIRE(::listen(server.get(), 8) == 0);
  })
      .join();
  const auto sent_with = [&](mode_t mode) {
    REQUIRE(::chmod(folder.path.c_str(), mode) == 0);
    RestAnswer answer;
    std::thread client([&] { answer = ask({"unix:" + path, "", "", false}); });
    const stoker::os::Fd peer(::accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::string said(4096, '\0');
    said.resize(static_cast<std::size_t>(
        std::max<ssize_t>(0, ::recv(peer.get(), said.data(), said.size(), 0))));
    ::shutdown(peer.get(), SHUT_RDWR);
    client.join();
    return std::pair(said, answer);
  };
  const auto [said, answer] = sent_with(01777);
  CHECK(said.empty());
  CHECK(!answer.reached);
  CHECK(answer.error.find("refused: uid 54321 listens on it") == 0);
  CHECK(sent_with(0755).first.starts_with("GET /slurm/"));  // root's folder: put there by root
}

TEST_CASE("slurmrestd's door: a stranger listens on its port -> the token is not sent") {
  const stoker::testing::Folder folder;
  const std::string file = folder.write("token", "a.b.c\n");
  REQUIRE(::chmod(file.c_str(), 0600) == 0);
  const auto said_to = [&](uid_t listener, bool with_token, bool insecure) {
    stoker::os::Fd server;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    std::thread([&] {  // a socket belongs to the user of the thread that makes it
      REQUIRE(::syscall(SYS_setresuid, -1, listener, -1) == 0);
      server.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      REQUIRE(::bind(server.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
      REQUIRE(::listen(server.get(), 8) == 0);
    })
        .join();
    REQUIRE(::getsockname(server.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    const std::string url = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    RestAnswer answer;
    std::thread client([&] { answer = ask({url, with_token ? file : "", "", insecure}); });
    const stoker::os::Fd peer(::accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::string said(4096, '\0');
    said.resize(static_cast<std::size_t>(
        std::max<ssize_t>(0, ::recv(peer.get(), said.data(), said.size(), 0))));
    ::shutdown(peer.get(), SHUT_RDWR);
    client.join();
    return std::pair(said, answer.error);
  };
  const auto has_token = [](const std::string& said) {
    return said.find("X-SLURM-USER-TOKEN: a.b.c") != std::string::npos;
  };
  CHECK(has_token(said_to(::geteuid(), true, false).first));
  if (::geteuid() != 0) return;
  const auto [said, error] = said_to(54321, true, false);
  CHECK(said.empty());
  CHECK(error.find("refused: uid 54321 listens on 127.0.0.1 port ") == 0);
  CHECK(has_token(said_to(54321, true, true).first));
  CHECK(said_to(54321, false, false).first.starts_with("GET /slurm/"));  // there is no secret
  CHECK(has_token(said_to(64, true, false).first));                      // a user of the system
}

TEST_CASE(
    "slurmrestd's door: a token that others can read, or text that is no token -> nothing is "
    "sent") {
  const stoker::testing::Folder folder;
  const std::string file = folder.write("token", "a.b.c\n");
  REQUIRE(::chmod(file.c_str(), 0644) == 0);
  const RestAnswer answer = ask({"http://127.0.0.1:1", file, "", false});
  CHECK(!answer.reached);
  CHECK(answer.error.find("mode 0644") != std::string::npos);
  REQUIRE(::chmod(file.c_str(), 0600) == 0);
  CHECK(ask({"http://127.0.0.1:1", file, "", false}).error.find("connect") != std::string::npos);
  folder.write("token", "a.b.c\nX-Evil: 1\n");
  CHECK(ask({"http://127.0.0.1:1", file, "", false}).error.find("one line") != std::string::npos);
  CHECK(!ask({"http://127.0.0.1:1", folder / "none", "", false}).reached);
}

TEST_CASE("slurmrestd's door: certificates that others may write -> nothing is sent") {
  const stoker::testing::Folder folder;
  const std::string file = folder.write("ca.pem", "x");
  REQUIRE(::chmod(file.c_str(), 0664) == 0);
  const RestAnswer answer = ask({"https://127.0.0.1:1", "", file, false});
  CHECK(!answer.reached);
  CHECK(answer.error.find("others may write it") != std::string::npos);
  REQUIRE(::chmod(file.c_str(), 0644) == 0);
  CHECK(ask({"https://127.0.0.1:1", "", file, false}).error.find("others") == std::string::npos);
}

TEST_CASE("slurmrestd's token: alone in its file, or as scontrol prints it") {
  const stoker::testing::Folder folder;
  for (const char* text : {"a.b.c", "a.b.c\n", "SLURM_JWT=a.b.c\n"}) {
    const std::string file = folder.write("token", text);
    REQUIRE(::chmod(file.c_str(), 0600) == 0);
    CHECK(read_token(file).value() == "a.b.c");
  }
}

TEST_CASE("slurmrestd's token: its end, and text that is no token") {
  // {"exp":1700000000,"sun":"alice"}
  const auto ends =
      token_ends("eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjE3MDAwMDAwMDAsInN1biI6ImFsaWNlIn0.x");
  REQUIRE(ends.has_value());
  CHECK(*ends == WallTime(std::chrono::seconds(1'700'000'000)));
  for (const char* text : {"", ".", "..", "a.b.c", "a.eyJleHAiOiJ4In0.c", "a.eyJleHAiOi0xfQ.c",
                           "a.W10.c", "a.%%%.c"}) {
    CAPTURE(text);
    CHECK(!token_ends(text));
  }
}

TEST_CASE("slurmrestd's URL: a socket, https, or http to this host") {
  for (const char* url :
       {"unix:/run/slurmrestd.sock", "https://slurm.example.org:6820", "https://[2001:db8::1]:6820",
        "https://slurm", "http://127.0.0.1:6820", "http://localhost:6820", "http://[::1]:6820"}) {
    CAPTURE(url);
    CHECK(core::check_rest_url({url, "", "", false}).has_value());
  }
  for (const char* url : {"",
                          "unix:",
                          "unix:run/x",
                          "slurm:6820",
                          "ftp://slurm",
                          "https://",
                          "https://slurm/",
                          "https://slurm:6820/slurm",
                          "https://alice@slurm",
                          "https://slurm:0",
                          "https://slurm:65536",
                          "https://slurm:x",
                          "https://sl urm",
                          "https://slurm?x",
                          "http://slurm:6820",
                          "http://127.0.0.1.example.org",
                          "http://localhost.example.org",
                          "https://[::1",
                          "https://[]",
                          "https://a\nb"}) {
    CAPTURE(url);
    CHECK(!core::check_rest_url({url, "", "", false}).has_value());
  }
  CHECK(core::check_rest_url({"http://slurm:6820", "", "", true}).has_value());
  CHECK(!core::check_rest_url({"unix:/" + std::string(200, 'x'), "", "", false}).has_value());
}
